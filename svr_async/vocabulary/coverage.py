"""--min-coverage: a run that leaves more without an answer than it allows ends with exit 3, all else kept."""

from __future__ import annotations

import math

from svr_async.errors import CoverageError


def require_coverage(missing: int, total: int, least: float, *, lack: str, hint: str) -> None:
    """Raise CoverageError where less than the share `least` of `total` has an answer; `lack` says what is missing."""
    coverage = (total - missing) / total if total else 1.0
    if coverage < least:
        shares = f"coverage {math.floor(1e4 * coverage) / 100:g} % is below {100 * least:g} %"
        raise CoverageError(f"{missing:,} of {total:,} {lack}: {shares}", hint=hint)
