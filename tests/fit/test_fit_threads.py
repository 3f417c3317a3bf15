"""Work in threads: results in order, jobs of different kinds, and turns that are short only meanwhile."""

import sys
from functools import partial

import pytest

from svr_async.fit import threads
from svr_async.fit.threads import TURN, in_threads, rows_of, side_by_side


def _interval(_: int) -> float:
    return sys.getswitchinterval()


def test_turns_are_short_only_while_threads_are_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads inside threads find short turns, and the last that is done leaves them as they were."""
    monkeypatch.setattr(threads, "processors", lambda: 2)
    usual = sys.getswitchinterval()
    inner = in_threads(lambda _: in_threads(_interval, range(2)), range(2))
    within, _ = side_by_side(partial(in_threads, _interval, range(2)), sys.getswitchinterval)

    assert sum(inner, within) == pytest.approx([TURN] * 6)
    assert sys.getswitchinterval() == usual
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number: 1 / number, range(2))
    assert sys.getswitchinterval() == usual


@pytest.mark.parametrize("processors", [1, 4])
def test_results_are_in_the_order_of_the_blocks(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one thread or several the results come in the order of what they were asked of."""
    monkeypatch.setattr(threads, "processors", lambda: processors)

    assert in_threads(lambda rows: rows.stop, rows_of(25, 10)) == [10, 20, 25]
    assert side_by_side(lambda: "one", lambda: 2) == ["one", 2]
