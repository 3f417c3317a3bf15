"""`svr labels`: a run beside a few labels of people, and what they should label next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from svr_async.commands.options import PATH, common, seed_option
from svr_async.errors import UsageError


@click.command()
@click.argument("run", metavar="RUN", type=PATH)
@click.argument("file", metavar="[FILE]", required=False, type=PATH)
@click.option("--next", "count", type=click.IntRange(1), metavar="N", help="Write N items worth labelling to --out.")
@click.option("--random", is_flag=True, help="With --next: drawn by chance, for corrected rates.")
@click.option("--out", type=PATH, metavar="FILE", help="Where --next goes: .jsonl or .csv.")
@click.option("--data", type=PATH, metavar="PATH", help="The run's data, for the texts.")
@seed_option
@common
def labels(
    run: Path, file: Path | None, count: int | None, random: bool, out: Path | None, data: Path | None, seed: int,
    as_json: bool
) -> None:  # fmt: skip
    """Compare a RUN with labels of people: agreement, and the rate that they would give, with intervals.

    FILE has rows of id, label (a, b or tie), labeller and note: .jsonl, .csv and others.

    \b
    Examples:
      svr labels runs/first --next 40 --random --out todo.csv
      svr labels runs/first todo.csv
    """
    from svr_async.commands.screen import print_json, show
    from svr_async.evaluation.label_files import read_labels
    from svr_async.evaluation.people import judge_and_people
    from svr_async.evaluation.people_view import people_sheet
    from svr_async.evaluation.run_folder import RunFolder
    from svr_async.evaluation.running.labelling import write_next

    if (count is None) is not (out is None) or (count is None and (file is None or random)):
        raise UsageError("svr labels needs a FILE of labels, or --next N with --out", hint="svr labels --help")
    loaded, held = RunFolder.load(run), None if file is None else read_labels(file)
    values: dict[str, Any] = {}
    if held is not None:
        found = judge_and_people(loaded.items, held.labels, seed=seed)
        values |= found.to_json() | {"blank": held.blank}
        if not as_json:
            show(people_sheet(loaded, found, held.blank))
    if count is not None and out is not None:
        known = held.labels if held else ()
        handed = write_next(loaded, count, out, labels=known, random=random, data=data, seed=seed)
        values["next"] = handed.to_json()
        click.echo(handed.in_words(), err=as_json)
    if as_json:
        print_json(values)
