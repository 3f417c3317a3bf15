"""What a training shows while it runs: lines in a log; on a terminal what happened, the fits, the stage under way."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from made_history import made_curve

from svr_async.commands import train_screen
from svr_async.commands.train_run import print_rounds
from svr_async.commands.train_screen import TrainScreen
from svr_async.engine.stats import EngineStats
from svr_async.fit.history import FitCurve
from svr_async.scoring.dev_pairs import accuracy_in_words


def stats() -> EngineStats:
    """Return the facts of an engine at work."""
    return EngineStats(in_flight=7, cache_hits=30, retries=2, usd=0.42)


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Put a terminal of 100 columns in place of standard error, and return it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    return screen


def told(screen: TrainScreen) -> None:
    """Tell a screen of a round's beginning."""
    screen.say("577 pairs to train on")
    screen.stage("judging", 600)
    for done in range(1, 601):
        screen.count(done)
    curve = made_curve(0, 3, round=1)
    screen.begin(FitCurve(round=1, dev_pairs=100))
    for record in curve.epochs:
        screen.epoch(record)
    screen.end(curve)
    screen.say("round 1: fit ended \x1b[31m[bold]x[/]")


def test_a_log_has_a_line_for_what_happened_and_now_and_then_for_the_stage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the seconds since the beginning; the stage with its rate and what the engine does."""
    monkeypatch.setattr(train_screen, "PLAIN_EVERY_S", 0.0)
    with TrainScreen(stats) as screen:
        told(screen)
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(r" +\d+\.\d s  ", line) for line in lines)
    assert lines[0].endswith("577 pairs to train on")
    line = next(line for line in lines if "300/600" in line)
    assert re.search(r"300/600 judging, \d+/s, 7 in flight, \$0\.42, 30 from cache, 2 retries$", line)


def test_a_stage_that_is_quick_says_nothing_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what happened; a line for the stage comes after ten seconds."""
    with TrainScreen() as screen:
        told(screen)
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_terminal_shows_the_log_the_fits_and_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happened stays; the table and the bar are drawn while they are of use and gone at the end."""
    screen_text = terminal(monkeypatch).getvalue
    monkeypatch.setattr(train_screen, "REFRESH_EVERY_S", 0.0)
    with TrainScreen(stats) as screen:
        screen.say("577 pairs to train on")
        screen.stage("judging", 600)
        screen.count(300)
        assert screen._live is not None
        screen._live.refresh()
        assert re.search(r"judging.*300/600.*7 in flight, \$0\.42, 30 from cache, 2 retries", screen_text())
        screen.begin(FitCurve(round=1, dev_pairs=100))
        screen._live.refresh()
        assert "fitting round 1" in screen_text()
        screen.end(made_curve(0, 3, round=1))
        screen._live.refresh()
        assert re.search(r"1 fit.*64\.0 ± 4\.8", screen_text())
    assert screen_text().count("\x1b[?25l") == screen_text().count("\x1b[?25h") == 1


def test_texts_are_not_read_as_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said stands as it is, whatever brackets are in it."""
    shown = terminal(monkeypatch)
    with TrainScreen() as screen:
        screen.say("[bold]x[/]")
    assert "[bold]x[/]" in shown.getvalue()


def test_an_error_leaves_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor comes back when a training is interrupted in the middle of a fit."""
    shown = terminal(monkeypatch)

    def interrupted() -> None:
        with TrainScreen(stats) as screen:
            screen.begin(FitCurve())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert shown.getvalue().count("\x1b[?25l") == shown.getvalue().count("\x1b[?25h") == 1


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Not a line."""
    with TrainScreen(stats, quiet=True) as screen:
        told(screen)
    assert capsys.readouterr().err == ""


def test_a_stage_without_questions_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all is known already, nothing says 0 of 0."""
    shown = terminal(monkeypatch)
    with TrainScreen(stats) as screen:
        screen.stage("judging", 0)
        assert screen._live is not None
        screen._live.refresh()
        assert "judging" not in shown.getvalue()
        screen.stage("judging", 600)
        screen._live.refresh()
        assert "judging" in shown.getvalue()


def closing_record(n_dev: int, **changes: Any) -> dict[str, Any]:
    """Return what is kept of a training of one round with so many dev pairs."""
    row = {
        "round": 1, "bank": 93, "kept": 61, "support": 0, "hard_negatives": 0, "judged_entries": 3152,
        "top_k": 96, "filler_weight": 0.0, "dev_accuracy": 0.75,
    }  # fmt: skip
    return {
        "rounds": [row | changes], "dev": {"round": 1}, "train_pairs": 1147, "judge": "rules", "contaminated": [],
        "outcomes": {}, "dev_pairs": n_dev, "headline": accuracy_in_words(0.75, n_dev),
    }  # fmt: skip


def test_the_end_of_a_training_tells_no_accuracy_of_too_few_dev_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    """A dash in the table and a line that says how many there are; a hundred pairs have their percentage."""
    print_rounds(closing_record(60), Path("out"), "0123456789ab", 7.0)
    out = capsys.readouterr().out
    assert "75.0 %" not in out
    assert "accuracy  accuracy not reported: 60 held-out pairs, 100 needed" in out.splitlines()
    print_rounds(closing_record(100), Path("out"), "0123456789ab", 7.0)
    out = capsys.readouterr().out
    assert "75.0 %" in out
    assert "too few" not in out


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "for use   all 61 rubrics of round 1 for a prompt"),
        ({"top_k": 6}, "for use   the best 6 of 61 rubrics of round 1 for a prompt"),
        (
            {"top_k": 6, "filler_weight": 0.25},
            (
                "for use   the best 6 of 61 rubrics of round 1 for a prompt; "
                "places left free go to others, which weigh 0.25"
            ),
        ),
    ],
)
def test_the_end_of_a_training_says_how_the_bank_is_used(
    changes: dict[str, float], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words below the table of the rounds, never with more rubrics than there are."""
    print_rounds(closing_record(100, **changes), Path("out"), "0123456789ab", 7.0)
    told = capsys.readouterr().out
    assert line in told.splitlines()
    assert "on 1,147 pairs" in told
