"""The epochs of a fit on a terminal and in a log: what is shown, what is marked, and that it fits the screen."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from made_history import made_curve, made_record
from rich.console import Console

from svr_async.commands.train_screen import EpochTable, FitScreen, LiveEpochs, PlainEpochs
from svr_async.fit.history import FitCurve
from svr_async.training.running.epoch_rows import BEST, best_curve, plain_line, short_rate

EMPTY = FitCurve(dev_pairs=100, seed=42)


def drawn(table: EpochTable, *, width: int = 80, height: int = 24) -> list[str]:
    """Return the lines of a table on a terminal of a size."""
    screen = io.StringIO()
    Console(file=screen, width=width, height=height).print(table)
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def told(table: EpochTable, curve: FitCurve) -> EpochTable:
    """Tell a table of a fit from beginning to end."""
    table.begin(replace(curve, epochs=(), best_epoch=0))
    for record in curve.epochs:
        table.epoch(record)
    table.end(curve)
    return table


@pytest.mark.parametrize("width", [80, 100, 160])
@pytest.mark.parametrize("adversarial", [None, 0.123456])
def test_a_row_holds_all_that_an_epoch_tells(width: int, adversarial: float | None) -> None:
    """Losses, margins, accuracy with its error, active rubrics, rate and seconds, one line a row at any width."""
    curve = made_curve(1, 3, epochs=tuple(made_record(n, adversarial_loss=adversarial) for n in (1, 2, 3)))
    lines = drawn(told(EpochTable(keep_whole=True), curve), width=width)
    rows = [line for line in lines if "e-4" in line]
    assert len(rows) == 3
    for text in ("0.5500", "0.0010", "0.300", "0.150", "64.0 ± 4.8", "13", "5e-4"):
        assert text in rows[2], text
    assert ("0.1235" in rows[2]) == (adversarial is not None)
    assert rows[2].startswith(BEST)
    assert not rows[0].startswith(BEST)
    assert all(len(line) <= width for line in lines)


def test_a_start_has_no_training_numbers() -> None:
    """Before the first step there is no training loss, margin or rate; dev is measured all the same."""
    rows = drawn(told(EpochTable(keep_whole=True), made_curve(0, 0)))
    assert rows[-1].split()[:5] == [BEST, "start", "–", "–", "–"]
    assert "55.0 ± 5.0" in rows[-1]
    assert "train margin" not in plain_line(made_curve(), made_record(0), 0.5)


def test_without_dev_no_dev_number_is_shown() -> None:
    """Training numbers never stand in the columns of dev."""
    curve = made_curve(1, 2, dev_pairs=0)
    assert "±" not in "\n".join(drawn(told(EpochTable(keep_whole=True), curve)))
    line = plain_line(curve, curve.epochs[0], None)
    assert "dev" not in line
    assert "train accuracy 60.0 %" in line


def test_the_best_epoch_so_far_is_marked_while_the_fit_runs() -> None:
    """The mark moves as better epochs come."""
    table = EpochTable(keep_whole=True)
    table.begin(EMPTY)
    for number in (1, 2):
        table.epoch(made_record(number))
        assert [row.best for row in table.rows(20)] == [False] * (number - 1) + [True]
    table.epoch(made_record(3, dev_accuracy=0.4))
    assert [row.best for row in table.rows(20)] == [False, True, False]


def test_seeds_that_ended_shrink_to_the_epoch_they_took_and_the_best_is_marked() -> None:
    """One row a seed, with its number; at the end one of them is the bank's."""
    screen = LiveEpochs(EpochTable(lead=("seed", lambda curve: str(curve.seed))), 3, 3)
    good = replace(made_curve(0, 3, seed=2), epochs=tuple(made_record(n, dev_accuracy=0.9) for n in range(4)))
    for curve in (made_curve(0, 3, seed=1), good, made_curve(0, 3, seed=3)):
        screen.begin(replace(curve, epochs=(), best_epoch=0))
        assert screen.doing().startswith(f"seed {curve.seed} of 3")
        for record in curve.epochs:
            screen.epoch(record)
        screen.end(curve)
    rows = screen.table.rows(20)
    assert [(row.curve.seed, row.record.epoch, row.best) for row in rows] == [
        (1, 3, False),
        (2, 3, True),
        (3, 3, False),
    ]
    assert screen.doing() == ""
    assert best_curve([]) is None


@pytest.mark.parametrize("best", [1, 30, 50])
def test_many_epochs_never_fill_more_than_the_screen(best: int) -> None:
    """The last ones are shown, and the best before them."""
    epochs = tuple(made_record(n, dev_accuracy=0.7 if n == best else 0.6) for n in range(1, 51))
    table = told(EpochTable(keep_whole=True), made_curve(epochs=epochs, best_epoch=best))
    lines = drawn(table, height=16)
    assert len(lines) <= 16
    numbers = [row.record.epoch for row in table.rows(10)]
    assert len(numbers) == 10
    assert numbers[-1] == 50
    assert best in numbers


def test_a_fit_read_back_from_a_checkpoint_is_shown_without_seconds() -> None:
    """Epochs that nobody was told of are in the table all the same."""
    table = EpochTable(keep_whole=True)
    table.begin(EMPTY)
    table.end(made_curve(1, 3))
    assert [row.seconds for row in table.rows(20)] == [None] * 3
    assert drawn(table)[-1].endswith("–")


@pytest.mark.parametrize(("rate", "text"), [(2e-3, "2e-3"), (1.24e-4, "1.2e-4"), (5e-4, "5e-4"), (1.0, "1e0")])
def test_rates_are_short(rate: float, text: str) -> None:
    """Two digits at most, and no zeros that say nothing."""
    assert short_rate(rate) == text


def test_a_log_has_a_line_an_epoch_and_what_was_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal: plain lines on standard error, no control characters."""
    screen = PlainEpochs()
    curve = made_curve(0, 2, epochs=tuple(made_record(n, adversarial_loss=0.25) for n in range(3)), best_epoch=2)
    screen.begin(replace(curve, epochs=()))
    for record in curve.epochs:
        screen.epoch(record)
    screen.end(curve)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "seed 42, start",
        *(f"seed 42, epoch {n}" for n in (1, 2)),
        "seed 42",
    ]
    assert "adversarial 0.2500" in lines[1]
    assert "dev accuracy 61.0 ± 4.9 %" in lines[2]
    assert lines[3] == "seed 42: took epoch 2, 61.0 ± 4.9 % on dev"
    assert all(line.isprintable() for line in lines)


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_a_live_table_leaves_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table grows in place, stays when the fit ends, and the cursor comes back, also after an error."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    screen_text = Terminal()
    monkeypatch.setattr("sys.stderr", screen_text)

    def shown(fails: bool) -> None:
        with FitScreen(quiet=False, epochs=True) as screen:
            watch = screen.fits(1, 3)
            assert watch is not None
            watch.begin(EMPTY)
            for record in made_curve(1, 3).epochs:
                watch.epoch(record)
            if fails:
                raise KeyboardInterrupt
            watch.end(made_curve(1, 3))

    shown(fails=False)
    assert "64.0 ± 4.8" in screen_text.getvalue()
    assert screen_text.getvalue().count("\x1b[?25l") == screen_text.getvalue().count("\x1b[?25h") == 1
    with pytest.raises(KeyboardInterrupt):
        shown(fails=True)
    assert screen_text.getvalue().count("\x1b[?25l") == screen_text.getvalue().count("\x1b[?25h") == 2


@pytest.mark.parametrize(("quiet", "epochs", "told"), [(True, True, ""), (False, False, "said\n")])
def test_a_quiet_screen_shows_no_epochs(
    quiet: bool, epochs: bool, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing when quiet; without epochs, as where JSON is printed, only what is said."""
    with FitScreen(quiet=quiet, epochs=epochs) as screen:
        assert screen.fits(1, 1) is None
        screen.say("said")
    assert capsys.readouterr().err == told
