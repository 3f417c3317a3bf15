"""The structure of a bank's fit in plain words, and how the candidates that it was chosen from did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from svr_async.fit.choices import Choice, Structure

SHOWN_CANDIDATES = 12
NONE = "none"
SHRUNKEN = "shrunken means"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A structure that was tried: its parts as words, accuracy on left-out prompts, standard error; fractions of 1."""

    groups: str
    sparsity: str
    common: str
    top_k: int
    accuracy: float
    error: float
    taken: bool


def candidates(choice: Choice) -> tuple[Candidate, ...]:
    """Return all that were tried, the most accurate first; of equals the one that was tried first."""
    found = [
        Candidate(
            groups=_groups(trial.structure),
            sparsity=_sparsity(trial.structure),
            common=_common(trial.structure),
            top_k=trial.structure.top_k,
            accuracy=trial.accuracy,
            error=trial.error,
            taken=trial.structure == choice.structure,
        )
        for trial in choice.trials
    ]
    return tuple(sorted(found, key=lambda one: -one.accuracy))


def divided(rows: Sequence[Candidate]) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """Return the rows to show, the best and the one that was taken wherever it stands, and the rest."""
    shown = {*range(min(SHOWN_CANDIDATES, len(rows))), *(place for place, row in enumerate(rows) if row.taken)}
    best = tuple(rows[place] for place in sorted(shown))
    return best, tuple(row for place, row in enumerate(rows) if place not in shown)


def structure_parts(choice: Choice) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and meaning of each part of the structure taken, and how many rubrics are spurious."""
    structure = choice.structure
    if structure.groups == 1:
        yield "Groups of prompts", NONE, "one weight a rubric, the same for every prompt"
    else:
        yield (
            "Groups of prompts",
            str(structure.groups),
            f"told apart by {_told_by(structure)}, each with weights of its own",
        )
    if structure.solver == "shrunken":
        yield "Weights", SHRUNKEN, "the mean of a rubric’s judgements, drawn towards 0 where they are few"
    else:
        yield "Sparsity", _sparsity(structure), "in units of noise: more leaves fewer rubrics"
        shared = "sparsity of what all prompts share"
        meaning = shared if structure.common else "nothing is learned for all prompts at once"
        yield "Part in common", _common(structure), meaning
    yield "Rubrics a prompt", str(structure.top_k), "the best of the bank"
    if choice.spurious:
        yield "Spurious", str(len(choice.spurious)), "rubrics that only go with the preferred response: no weight"


def how_chosen(choice: Choice) -> str:
    """Say how the structure came to be."""
    if not choice.trials:
        return "The settings name this structure; no other was tried."
    others = len(choice.beside)
    averaged = f" It is averaged with {others} that did about as well." if others else ""
    return (
        f"Chosen among {len(choice.trials):,} by cross-validation, leaving out {choice.left_out} in turn: the simplest "
        f"of those that did as well as the best.{averaged}"
    )


def _told_by(structure: Structure) -> str:
    beside = "rubrics" if structure.view == "rubrics" else "words of rubrics"
    return f"words that go with the same {beside}"


def _groups(structure: Structure) -> str:
    return NONE if structure.groups == 1 else str(structure.groups)


def _sparsity(structure: Structure) -> str:
    return SHRUNKEN if structure.solver == "shrunken" else f"{structure.sparsity:g}"


def _common(structure: Structure) -> str:
    return f"{structure.common:g}" if structure.common else NONE
