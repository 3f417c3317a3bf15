"""What a planted world is written in: its attributes and their rubrics, and how its texts are read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from svr_async.simulation.catalogue import CRITERIA, GENERIC, Criterion
from svr_async.simulation.draws import uniform
from svr_async.simulation.readings import (
    PromptReading,
    ResponseReading,
    RubricReading,
    read_prompt,
    read_response,
    read_rubric,
)
from svr_async.simulation.wordings import EVERYTHING, PREDICATES

HEADS = ("The response", "The answer", "The reply", "A good response", "The response clearly")
VARIANT_SHARE = 0.35  # share of proposals in other than the usual wording


class Language(Protocol):
    """The attributes of a world by number, the rubrics that name them, and the reading of its texts.

    The first `n_criteria` attributes are those that responses vary in; any after them are commonplaces.
    """

    n_criteria: int
    generic: Sequence[str]
    everything: Sequence[Criterion]

    def rubric(self, number: int) -> str:
        """Return the rubric of an attribute in its usual wording."""

    def wordings(self, number: int) -> Sequence[str]:
        """Return the rubrics that a model may propose for an attribute, the usual one first."""

    def proposal(self, number: int, drawn: bytes) -> str:
        """Return one of them, with a beginning of its own, as a model puts it this time."""

    def read_prompt(self, text: str) -> PromptReading:
        """Tell the type of a prompt."""

    def read_response(self, text: str) -> ResponseReading:
        """Tell which attributes a response shows, and how it looks."""

    def read_rubric(self, text: str) -> RubricReading:
        """Tell which attribute a rubric names."""


class CatalogueLanguage:
    """The language of the worlds that are written from the catalogue; `wordings` of each criterion are proposed."""

    n_criteria = len(CRITERIA)
    generic: Sequence[str] = GENERIC
    everything: Sequence[Criterion] = EVERYTHING

    def __init__(self, wordings: int) -> None:
        self._wordings = wordings

    def rubric(self, number: int) -> str:
        """Return the rubric of an attribute in its usual wording."""
        return EVERYTHING[number].rubric

    def wordings(self, number: int) -> Sequence[str]:
        """Return the rubrics that a model may propose for an attribute."""
        return [f"{HEADS[0]} {predicate}." for predicate in PREDICATES[number][: self._wordings]]

    def proposal(self, number: int, drawn: bytes) -> str:
        """Return one of them, with a beginning of its own."""
        return with_head(PREDICATES[number][int(uniform(drawn, 3) * self._wordings)], drawn)

    def read_prompt(self, text: str) -> PromptReading:
        """Tell the type of a prompt by its vocabulary."""
        return read_prompt(text)

    def read_response(self, text: str) -> ResponseReading:
        """Look a response's attributes up in its sentences."""
        return read_response(text)

    def read_rubric(self, text: str) -> RubricReading:
        """Recognise a wording, or the nearest to it."""
        return read_rubric(text)


def with_head(predicate: str, drawn: bytes) -> str:
    """Complete a predicate to a rubric, now and then with another beginning than the usual."""
    head = HEADS[0]
    if uniform(drawn, 0) < VARIANT_SHARE:
        head = HEADS[1 + int(uniform(drawn, 1) * (len(HEADS) - 1))]
    return f"{head} {predicate}."
