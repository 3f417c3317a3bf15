"""What a run says that leaves more without an answer than it may."""

from __future__ import annotations

import pytest

from svr_async.core.integrity import require_coverage
from svr_async.errors import CoverageError


@pytest.mark.parametrize(("missing", "total", "share"), [(1, 95_455, "99.99"), (4, 12, "66.66"), (12, 12, "0")])
def test_a_share_below_all_is_never_told_as_all(missing: int, total: int, share: str) -> None:
    """One pair of many: the share is cut, not rounded, so that it is seen to be below what was asked for."""
    with pytest.raises(CoverageError, match=f"coverage {share} % is below 100 %"):
        require_coverage(missing, total, 1.0, lack="pairs have no verdict", hint="")
    require_coverage(missing, total, 0.0, lack="pairs have no verdict", hint="")
