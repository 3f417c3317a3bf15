"""`svr compare`, `gate`, `agreement`, `runs` and `merge`: what runs show, and how they differ."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import flag, option
from svr_async.commands.screen import print_json, safe_console, show, tell
from svr_async.core.table import Table, warnings_of
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", type=opt.PATH)
@flag("--drift", "Measure judge drift: same bank, other judge or date.")
@opt.json
def compare(runs: tuple[Path, ...], drift: bool, as_json: bool) -> None:
    """Compare runs over the same data: accuracy, paired tests, and the pairs that only one run has right.

    Each later run is tested against the first, on the pairs that both judged. Intervals draw pairs of one prompt
    together; p-values are exact and adjusted for several tests (Holm). --drift shows flipped verdicts, shifts of the
    margin, and the rubrics that flip most.

    \b
    Examples:
      svr compare runs/first runs/second
      svr compare runs/small-judge runs/large-judge --drift
    """
    from svr_async.evaluation.compare import compare_runs, drift_of
    from svr_async.evaluation.run_folder import Run
    from svr_async.reports.compare_tables import comparison_tables, drift_tables

    loaded, width = [Run.load(run) for run in runs], safe_console().width
    if drift:
        shift = drift_of(loaded)
        tell(shift.to_json, [*warnings_of(shift.differs), *drift_tables(shift, width)], as_json=as_json)
        return
    found = compare_runs(loaded)
    tell(found.to_json, [*warnings_of(found.warnings), *comparison_tables(found, width)], as_json=as_json)


@click.command()
@click.argument("run", metavar="RUN", type=opt.PATH)
@click.argument("baseline", metavar="BASELINE", type=opt.PATH)
@option("--margin POINTS", "Tolerate this loss. Default: 0.", type=click.FloatRange(0, 100), default=0.0)
@flag("--strict", "Exit 9 also if the pairs cannot decide.")
@option("--allow KIND", "Accept another judge, model, prompts or settings. Repeatable.", multiple=True)
@option("--output", "Form of output.", name="form", type=click.Choice(["text", "github", "md"]), default="text")
@opt.json
def gate(
    run: Path, baseline: Path, margin: float, strict: bool, allow: tuple[str, ...], form: str, as_json: bool
) -> None:
    """Exit 9 if RUN is significantly worse than BASELINE.

    The rule uses the paired 95 % interval of the difference in accuracy. FAILED: all of it lies below −margin and the
    exact paired test has p ≤ 0.05. PASSED: its lower end is at least −margin. Else UNDECIDED, exit 0. If judge, models,
    data, prompts or settings differ, nothing is compared (exit 2). Method, bank, rubrics and top-k may differ.

    \b
    Example:  svr gate runs/new runs/main --margin 1 --output github
    """
    from svr_async.evaluation.gate import gate_runs, raise_unless_passed
    from svr_async.evaluation.run_folder import Run
    from svr_async.reports.sheets import FORMATS

    found = gate_runs(Run.load(run), Run.load(baseline), margin=margin / 100, allow=allow)
    tell(found, lambda: click.echo(FORMATS[form](found), nl=False), as_json=as_json)
    raise_unless_passed(found, strict=strict)


@click.command()
@click.argument("run", metavar="RUN", type=opt.PATH)
@click.argument("labels", metavar="[LABELS]", required=False, type=opt.PATH)
@option("--next N", "Write N items worth labelling to --out.", name="count", type=opt.COUNT)
@flag("--random", "With --next, draw a random sample.")
@option("--out FILE", "Where --next writes: .jsonl or .csv.", type=opt.PATH)
@opt.moved_data
@opt.json
def agreement(
    run: Path,
    labels: Path | None,
    count: int | None,
    random: bool,
    out: Path | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Compare a RUN with human labels: share of equal labels and Cohen's κ.

    LABELS has rows of id, label (a, b or tie), labeller and note.

    \b
    Examples:
      svr agreement runs/first --next 40 --out todo.csv
      svr agreement runs/first todo.csv
    """
    from svr_async.evaluation.human_labels import measure_agreement, read_labels, write_next
    from svr_async.evaluation.run_folder import Run
    from svr_async.reports.sheets import agreement_sheet

    if (count is None) is not (out is None) or (count is None and (labels is None or random)):
        raise UsageError("svr agreement needs LABELS, or --next N with --out FILE")
    loaded, (known, blank) = Run.load(run), ((), 0) if labels is None else read_labels(labels)
    values: dict[str, Any] = {}
    if labels is not None:
        found = measure_agreement(loaded.items, known)
        values |= asdict(found) | {"blank": blank}
        if not as_json:
            show(agreement_sheet(loaded, found, blank))
    if count is not None and out is not None:
        done = frozenset(one.id for one in known)
        values["next"], text = write_next(loaded, count, out, done=done, random=random, data=data)
        click.echo(text, err=as_json)
    if as_json:
        print_json(values)


@click.command()
@click.argument("folders", nargs=-1, metavar="[FOLDER...]", type=opt.PATH)
@opt.json
def runs(folders: tuple[Path, ...], as_json: bool) -> None:
    """List the runs under ./runs or the given FOLDERs, the latest first.

    \b
    Example:  svr runs
    """
    from svr_async.evaluation import wording

    found = [_facts(path, metrics) for path, metrics in runs_under(folders or (Path("runs"),))]
    if not found and not as_json:
        places = ", ".join(f"'{one}'" for one in folders)
        raise UsageError(f"no runs under {places or './runs'}", hint="svr eval judges a run")
    heads = ("run", "benchmark", "method", "judge", "pairs", "accuracy", "cost", "when")
    rows = [
        (
            one["run"] + ("" if one["complete"] else " [PARTIAL]"),
            *(str(one[name]) for name in ("benchmark", "method", "judge")),
            wording.count(one["pairs"]),
            wording.percent(one["accuracy"]),
            wording.UNKNOWN if one["cost_usd"] is None else wording.dollars(one["cost_usd"]),
            one["when"],
        )
        for one in found
    ]
    tell(found, [Table(heads, rows, texts=1)], as_json=as_json)


def runs_under(folders: tuple[Path, ...]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield run folders with their metrics, at most two levels below the given folders, the latest first."""
    import orjson

    from svr_async.core.files import read_plain

    patterns = ("metrics.json", "*/metrics.json", "*/*/metrics.json")
    paths = {path for folder in folders for pattern in patterns for path in folder.glob(pattern)}
    for path in sorted(paths, key=lambda path: (-path.stat().st_mtime, path)):
        try:
            metrics = orjson.loads(read_plain(path))
        except (OSError, orjson.JSONDecodeError):
            continue
        if isinstance(metrics, dict) and "benchmark" in metrics:
            yield path.parent, metrics


def _facts(path: Path, metrics: dict[str, Any]) -> dict[str, Any]:
    from datetime import UTC, datetime

    when = datetime.fromtimestamp((path / "metrics.json").stat().st_mtime, UTC)
    named = {name: metrics.get(name) for name in ("benchmark", "method", "judge", "accuracy", "cost_usd", "complete")}
    return {"run": str(path), **named, "pairs": metrics.get("n_total"), "when": f"{when:%Y-%m-%d %H:%M} UTC"}


@click.command()
@click.argument("shards", nargs=-1, required=True, metavar="SHARD...", type=opt.PATH)
@option("--out RUN", "Where the run is written.", required=True, type=opt.PATH)
@opt.json
def merge(shards: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Merge all SHARDs of a run (folders of svr eval --shard) into one run, without any call.

    \b
    Example:  svr merge runs/*-shard-*-of-4 --out runs/whole
    """
    from svr_async.commands.eval_run import Screen
    from svr_async.evaluation.shards import merge_shards

    Screen(quiet=True, as_json=as_json).ended(merge_shards(shards, out))
