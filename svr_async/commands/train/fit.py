"""`svr fit`: flags to settings, the result to the screen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from svr_async.commands.options import known_of
from svr_async.commands.screen import print_json
from svr_async.commands.train.epochs import FitScreen
from svr_async.commands.train.table import print_fit, print_learning
from svr_async.reports.files import write_bank
from svr_async.tracking.facts import of_training
from svr_async.tracking.hand_over import hand_over
from svr_async.training.running.refit import FitSettings, StoreFit, fit_store
from svr_async.training.running.sweep import sweep_lines, sweep_store


def run_fit(flags: Mapping[str, Any]) -> int:
    """Fit and return the exit code; SvrError for a store that fails its checks, or has nothing to learn from."""
    settings = FitSettings(**known_of(FitSettings, flags))
    with FitScreen(quiet=flags["quiet"], epochs=not flags["as_json"]) as screen:
        if flags["sweep"] or flags["keep_all"]:
            swept = sweep_store(settings, flags["sweep"], keep_all=flags["keep_all"], listener=screen)
            found = StoreFit(bank=swept.bank, record=swept.record)
        else:
            found = fit_store(settings, screen)
    write_bank(settings.out / "bank", settings.out / "report.html")
    if flags["as_json"]:
        print_json(found.record)
    else:
        click.echo("".join(f"{line}\n" for line in sweep_lines(found.record.get("sweep"))), nl=False)
        print_fit(found.record, settings.out)
        print_learning(found.learned)
    facts = partial(of_training, "fit", settings.out, known_of(FitSettings, flags), found.record)
    hand_over(flags["track"], facts, partial(click.echo, err=True))
    return 0
