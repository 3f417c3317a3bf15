"""`--learning-curve`: fit on fewer pairs once training has judged, and print how accuracy grows."""

from __future__ import annotations

from svr_async.errors import DegenerateFitError, UsageError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.learning_curve import LearningCurve, learning_curve
from svr_async.training.config import TrainConfig
from svr_async.training.fitting import fit_settings
from svr_async.training.session import Say


def require_solved(config: TrainConfig, asked: bool) -> None:
    """Refuse a learning curve of a preset that is descended rather than solved, before anything is judged."""
    if asked and config.fit.kind != "topics":
        raise UsageError("--learning-curve is of the default fit only", hint="leave it or --preset paper out")


def learned_curve(train: FitArrays, config: TrainConfig, say: Say) -> LearningCurve | None:
    """Return the curve of what a round was fitted on, with no call; None, said, where there is too little of it."""
    say("fitting on an eighth, a quarter and a half of the pairs")
    try:
        return learning_curve(train, fit_settings(config))
    except DegenerateFitError as error:
        say(f"warning: no learning curve: {error.message}")
        return None


def print_learning(curve: LearningCurve | None) -> None:
    """Print the curve as a table with a sentence; nothing where there is none."""
    from rich.table import Table  # noqa: PLC0415

    from svr_async.commands.screen import styled_console  # noqa: PLC0415

    if curve is None:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("pairs", "share", "accuracy", "95 % interval", "draws"):
        table.add_column(name, justify="right")
    for point in curve.points:
        interval = f"{100 * point.low:.1f} to {100 * point.high:.1f}"
        share, accuracy = f"{100 * point.share:g} %", f"{100 * point.accuracy:.1f} %"
        table.add_row(f"{point.pairs:,}", share, accuracy, interval, str(point.draws))
    console = styled_console()
    console.print(f"\n[bold]learning curve[/] on {curve.held_out:,} pairs, each left out of the fits that decide it")
    console.print(table)
    console.print(curve.in_words(), soft_wrap=True, markup=False)
