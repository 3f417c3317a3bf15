"""Progress: a bar on a terminal, lines elsewhere; the status of an engine in short."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from svr_async.commands import progress, screen
from svr_async.commands.progress import engine_facts
from svr_async.commands.train_run import TrainScreen
from svr_async.engine.endpoint import EndpointStats
from svr_async.engine.stats import EngineStats, Spread
from svr_async.fit.history import FitCurve


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal of 100 columns in place of standard error, and return it."""
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}.items():
        monkeypatch.setenv(name, value)
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    return found


def train(shown: TrainScreen) -> None:
    """Tell a screen of a round's beginning."""
    shown.say("577 pairs to train on")
    shown.stage("judging", 600)
    for done in range(1, 601):
        shown.count(done)
    shown.begin(FitCurve(round=1))
    shown.end(FitCurve(round=1))
    shown.say("round 1: fit ended \x1b[31m[bold]x[/]")


def test_a_terminal_keeps_the_log_and_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is drawn and removed; texts are not markup; the cursor comes back after an error too."""
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "REFRESH_EVERY_S", 0.0)

    def stopped() -> None:
        with TrainScreen() as shown:
            train(shown)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    text = terminal.getvalue()
    assert "judging" in text
    assert "[bold]x[/]" in text
    assert text.count("\x1b[?25h") >= text.count("\x1b[?25l") > 0


def test_a_spinner_comes_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick work shows nothing; slow work shows what it does until it ends."""
    terminal = on_a_terminal(monkeypatch)
    with screen.spinner("counting calls"):
        pass
    assert terminal.getvalue() == ""
    monkeypatch.setattr(screen, "SPINNER_AFTER_S", 0.0)
    with screen.spinner("counting calls"):
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
    assert "counting calls" in terminal.getvalue()


def endpoint(**changes: Any) -> EndpointStats:
    """Return an endpoint that admits calls."""
    numbers = dict.fromkeys(EndpointStats.__slots__, 0)
    return EndpointStats(**{**numbers, "name": "", "state": "ready", "wait_s": 0.0, **changes})


LOST = endpoint(name="http://b:8000/v1", state="down", wait_s=4.0)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "12 in flight"),
        ({"usd": 0.42, "cache_hits": 30, "retries": 2}, "12 in flight, $0.42, 30 from cache, 2 retries"),
        ({"waiting": 5}, "12/64 in flight"),
        ({"latency": Spread(p50=1.23, p90=2.0, p99=3.0)}, "12 in flight, 1.2\u00a0s a call"),
        ({"endpoints": (endpoint(state="rate limited", wait_s=30.0),)}, "12 in flight, rate limited 30 s"),
        ({"endpoints": (endpoint(state="rate limited", wait_s=0.2),)}, "12 in flight"),
        ({"endpoints": (endpoint(state="paced", wait_s=9.0),)}, "12 in flight"),
        (
            {"endpoints": (endpoint(name="http://a:8000/v1", in_flight=3), LOST)},
            "12 in flight, b:8000 no answer, next try in 4 s, a:8000 3 b:8000 0",
        ),
    ],
)
def test_the_status_of_an_engine_is_short(changes: dict[str, Any], line: str) -> None:
    """Calls in flight, cost early, what holds calls back and for how long, each endpoint by name."""
    assert (
        engine_facts(lambda: EngineStats(**{"in_flight": 12, "limit": 64, "endpoints": (endpoint(),), **changes}))
        == line
    )
    assert engine_facts(None) == ""
