"""Rubrics in words that fit a prompt: rewritten by a model before any response is seen, as an option at inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.errors import UsageError
from svr_async.judges.protocol import Answer
from svr_async.judges.rules.judge import check_of

KEPT = "rephrase_kept"  # the reply gave no sure wording for some rubric, whose own text was used
FAILED = "rephrase_failed"  # there was no reply to read: every rubric was used in its own words


@runtime_checkable
class Rephraser(Protocol):
    """Something that rewrites rubrics for a prompt."""

    async def rephrase(self, prompt: Prompt, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, str]]:
        """Return new wordings by rubric id; a rubric without a sure one is absent."""


def rephraser_of(author: object, judge: str) -> Rephraser:
    """Return the author as a rephraser; UsageError where it cannot rephrase."""
    if isinstance(author, Rephraser):
        return author
    raise UsageError(
        f"the judge {judge} cannot rephrase rubrics: there is no model behind it",
        hint="name the judge of an endpoint, or judge with the rubrics as they are",
    )


async def new_wordings(
    rephraser: Rephraser | None, prompt: Prompt, rubrics: Sequence[Rubric]
) -> Answer[Mapping[str, str]]:
    """Return rubrics' texts that fit the prompt, by id; none without a rephraser.

    A rubric that the reply leaves out keeps its own text, and so do all if the model refuses or its reply cannot be
    parsed: both are flagged. If the endpoint failed there is no value, so that a fault changes no margin.
    """
    if rephraser is None or not rubrics:
        return Answer(value={})
    answer = await rephraser.rephrase(prompt, rubrics)
    if answer.value is None and answer.outcome is Outcome.API_ERROR:
        return answer
    texts = answer.value or {}
    flags = () if len(texts) == len(rubrics) else (KEPT if texts else FAILED,)
    return Answer(value=texts, requests=answer.requests, flags=flags)


def reworded(rubric: Rubric, texts: Mapping[str, str]) -> Rubric:
    """Return the rubric with its new text and its old id; a check that its own text stands for stays its check."""
    new = texts.get(rubric.id)
    return rubric if new is None else replace(rubric, text=new, check=check_of(rubric))
