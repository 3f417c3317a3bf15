"""--min-coverage: a run that leaves more without an answer than it allows ends with exit 3, all else kept."""

from __future__ import annotations

from svr_async.errors import CoverageError


def require_coverage(missing: int, total: int, least: float, *, lack: str, hint: str) -> None:
    """Raise CoverageError where less than the share `least` of `total` has an answer; `lack` says what is missing."""
    coverage = 1 - missing / total if total else 1.0
    if coverage < least:
        raise CoverageError(f"{missing:,} of {total:,} {lack}: coverage {coverage:.4f} is below {least:g}", hint=hint)
