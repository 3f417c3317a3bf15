"""`svr data`: benchmarks and training sets, where they come from and what a row looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson

from svr_async.commands.options import common, lenient_option


@click.group()
def data() -> None:
    """Benchmarks and training sets.

    \b
    Example:  svr data show rubricbench --sample
    """


@data.command("ls")
@common
def list_data(config: object, as_json: bool) -> None:  # noqa: ARG001
    """List the data sets that have an adapter.

    \b
    Example:  svr data ls
    """
    from svr_async.adapters import ADAPTERS

    rows: list[dict[str, Any]] = [
        {"name": a.name, "title": a.title, "hub": a.hub_id, "licence": a.licence, "training": a.training}
        for a in ADAPTERS.values()
    ]
    if as_json:
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return
    from rich.table import Table

    from svr_async.commands.screen import styled_console

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("name", "what", "on the hub", "licence"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(row["name"], row["title"], row["hub"] or "– (--data PATH)", row["licence"])
    styled_console().print(table)


@data.command()
@click.argument("name")
@click.option("--data", "path", type=click.Path(path_type=Path), metavar="PATH", help="Read this file or folder.")
@click.option("--sample", is_flag=True, help="Read the small set that ships with the package.")
@click.option("--row", type=click.IntRange(min=1), default=1, show_default=True, help="Which pair to show.")
@common
def show(name: str, path: Path | None, sample: bool, row: int, config: object, as_json: bool) -> None:  # noqa: ARG001
    """Show the schema of NAME, and counts and one pair of a file in it.

    \b
    Examples:
      svr data show rewardbench
      svr data show pairs --data my_pairs.jsonl --row 7
    """
    from svr_async.adapters import get_adapter, load_sample
    from svr_async.errors import UsageError

    adapter = get_adapter(name)
    facts: dict[str, Any] = {"name": adapter.name, "title": adapter.title, "schema": dict(adapter.schema)}
    if sample or path is not None:
        dataset = load_sample() if path is None else adapter.load(path)
        if row > len(dataset.pairs):
            raise UsageError(f"--row {row}: there are {len(dataset.pairs)} pairs", hint="give a smaller row")
        facts |= _describe(dataset, row)
    if as_json:
        click.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2))
    else:
        _print(facts)


@data.command(short_help="Split pairs into train and test by their prompts.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--format", "adapter", default="pairs", show_default=True, metavar="NAME", help="The adapter for PATH.")
@click.option("--share", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.2, show_default=True)
@click.option(
    "--seed", default="", help="Another word or number draws other prompts; never those of `svr train --seed`."
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="For train.jsonl, test.jsonl."
)
@lenient_option
@common
def split(
    path: Path,
    adapter: str,
    share: float,
    seed: str,
    out: Path,
    lenient: bool,
    config: object,  # noqa: ARG001  (eager)
    as_json: bool,
) -> None:
    """Split pairs into train.jsonl and test.jsonl by their prompts, so that no prompt is on both sides.

    \b
    Example:  svr data split pairs.jsonl --share 0.2 --out split/
    """
    from svr_async.adapters import get_adapter
    from svr_async.adapters.split import write_split

    counts = write_split(get_adapter(adapter).load(path, lenient=lenient).pairs, share, seed, out)
    if as_json:
        click.echo(orjson.dumps(counts))
    else:
        click.echo(f"{counts['train']:,} pairs in {out / 'train.jsonl'}, {counts['test']:,} in {out / 'test.jsonl'}")


def _describe(dataset: Any, row: int) -> dict[str, Any]:
    from collections import Counter

    from svr_async.vocabulary.pair import prompt_text

    pair = dataset.pairs[row - 1]
    return {
        "path": str(dataset.source),
        "rows": dataset.n_rows,
        "pairs": len(dataset.pairs),
        "digest": dataset.digest,
        "official": dataset.official,
        "skipped": dict(dataset.skipped),
        "notes": list(dataset.notes),
        "domains": dict(Counter(p.domain for p in dataset.pairs)),
        "pair": {
            "id": pair.id,
            "domain": pair.domain,
            "subset": pair.subset,
            "gold": pair.gold.value if pair.gold else None,
            "prompt": prompt_text(pair.prompt),
            "response_a": pair.response_a,
            "response_b": pair.response_b,
            "rubrics": list(pair.rubrics),
        },
    }


def _print(facts: dict[str, Any]) -> None:
    from rich.markup import escape

    from svr_async.commands.screen import styled_console
    from svr_async.evaluation.safetext import for_terminal

    console = styled_console()
    console.print(f"[bold]{facts['title']}[/]")
    for column, text in facts["schema"].items():
        console.print(f"  [cyan]{escape(column)}[/]  {escape(text)}")
    for name in ("path", "rows", "pairs", "digest", "skipped", "notes", "domains"):
        if facts.get(name):
            console.print(f"[dim]{name}[/]  {escape(str(facts[name]))}", soft_wrap=True)
    for name, text in facts.get("pair", {}).items():
        shown = "\n".join(text) if isinstance(text, list) else str(text)
        console.print(f"[cyan]{name}[/]  {escape(for_terminal(shown[:2000]))}")
