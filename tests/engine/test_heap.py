"""Memory of large replies: handed back once so much has passed, and never for small ones."""

from __future__ import annotations

import pytest

from svr_async.engine.http import heap


def test_it_is_handed_back_once_in_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After PASSED_BYTES of large replies, then after as many again."""
    calls: list[int] = []
    monkeypatch.setattr(heap, "_trim", lambda: calls.append)
    monkeypatch.setattr(heap, "_passed", 0)
    replies = heap.PASSED_BYTES // heap.LARGE_BYTES
    for _ in range(2 * replies + 1):
        heap.large_reply(heap.LARGE_BYTES)
    assert calls == [0, 0]


def test_the_c_library_has_it_or_nothing_is_done() -> None:
    """It is asked without an error."""
    assert heap._trim()(0) in {0, 1}
