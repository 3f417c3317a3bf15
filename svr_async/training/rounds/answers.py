"""What became of a training's questions: how many of each stage have no answer, and for what reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from svr_async.core.integrity import require_coverage
from svr_async.core.verdict import Outcome

Outcomes = Mapping[str, Mapping[str, int]]  # how many questions of each stage had which outcome


def unanswered(outcomes: Mapping[str, int]) -> int:
    """Return how many questions of a stage have no answer."""
    return sum(count for outcome, count in outcomes.items() if outcome != Outcome.SCORED)


def coverage_counts(outcomes: Outcomes) -> tuple[int, int]:
    """Return how many questions of all stages have no answer, and how many there were."""
    return sum(map(unanswered, outcomes.values())), sum(sum(counts.values()) for counts in outcomes.values())


def require_answers(outcomes: Outcomes, least: float, failures: Path, *, before: str = "") -> None:
    """Raise CoverageError where too few questions got an answer; `before` is to be done before they are asked again."""
    missing, total = coverage_counts(outcomes)
    hint = f"{failures} says why; {before}--retry-errors asks again, --min-coverage accepts it"
    require_coverage(missing, total, least, lack="questions have no answer", hint=hint)


def unanswered_lines(outcomes: Outcomes) -> list[str]:
    """Say of each stage with questions that have no answer how many, of how many, and why."""
    return [_line(stage, counts) for stage, counts in outcomes.items() if unanswered(counts)]


def _line(stage: str, counts: Mapping[str, int]) -> str:
    why = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()) if name != Outcome.SCORED)
    return f"{stage}: {unanswered(counts):,} of {sum(counts.values()):,} questions have no answer ({why})"
