"""The flags of `svr eval`, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from svr_async.judges.limits import JudgeLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalFlags:
    """The flags of `svr eval`, by name; `given` are the names of those that were not left to their defaults."""

    benchmark: str
    judge: str
    method: str | None
    rubrics: Path | None
    bank: str | None
    top_k: int | None
    rephrase: bool
    data: Path | None
    sample: bool
    limit: str | None
    domain: tuple[str, ...]
    order: str
    audit: float
    base_url: str
    limits: JudgeLimits
    resume: bool
    min_coverage: float
    tie_credit: str
    lenient: bool
    salt: str
    out: Path | None
    quiet: bool
    verbose: bool
    as_json: bool
    audit_below: float | None = None
    jury: str | None = None
    jury_rule: str = "mean"
    escalate_to: str | None = None
    escalate_below: float | None = None
    report: str | None = None
    given: frozenset[str] = frozenset()
    force: bool = False
    processes: int = 1
