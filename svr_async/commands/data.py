"""`svr data`: benchmarks and training sets, where they come from and what a row looks like."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.options import PATH, json_option, reading
from svr_async.commands.screen import plain_table, safe_console, styled_console, tell
from svr_async.core.pair import prompt_text
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.adapters import Dataset


@click.group()
def data() -> None:
    """Benchmarks, training sets and files of pairs.

    \b
    Examples:
      svr data check my_pairs.csv
      svr data check my_pairs.csv
    """


@data.command("ls")
@json_option
def list_data(as_json: bool) -> None:
    """List the data sets that have an adapter.

    \b
    Example:  svr data ls
    """
    from svr_async.adapters import ADAPTERS

    rows: list[dict[str, Any]] = [
        {"name": a.name, "title": a.title, "hub": a.hub_id, "licence": a.licence, "training": a.training}
        for a in ADAPTERS.values()
    ]
    heads = ("name", "what", "on the hub", "licence")
    told = [(row["name"], row["title"], row["hub"] or "– (--data PATH)", row["licence"]) for row in rows]
    tell(rows, lambda: safe_console().print(plain_table(heads, told, words=True)), as_json=as_json)


_format_option = click.option(
    "--format", "adapter", default="pairs", show_default=True, metavar="NAME", help="The adapter for PATH."
)


@data.command(short_help="List all problems of a file, and how it would be read.")
@click.argument("path", type=PATH)
@_format_option
@click.option(
    "--row", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Which pair to show."
)
@reading
@json_option
def check(path: Path, adapter: str, row: int, as_json: bool, lenient: bool, **how: Any) -> int:
    """Read PATH (a file, a folder, - or hf:org/name) as a run would: all problems, how labels are read, one pair.

    Ends with exit code 2 if a run would stop at an invalid row.

    \b
    Examples:
      svr data check my_pairs.csv
      svr data check votes.jsonl --label-map 1=a,2=b,0=tie --row 7
    """
    from svr_async.adapters import get_adapter
    from svr_async.adapters.records import INVALID

    known = get_adapter(adapter)
    dataset = known.load(path, lenient=True, **how)
    chance = {"chance": known.chance} if known.chance else {}
    facts = {"name": known.name, "title": known.title, **chance, **_facts(dataset, row)}
    tell(facts, lambda: _print(facts), as_json=as_json)
    invalid = sum(count for reason, count in dataset.skipped.items() if reason.startswith(INVALID))
    if invalid and not lenient:
        click.echo(f"a run would stop at the first invalid row ({invalid} in all); --lenient leaves them out", err=True)
        return 2
    return 0


@data.command(short_help="Download a benchmark, or a data set of the hub.")
@click.argument("name", metavar="NAME|hf:org/name[@revision][:split]")
@click.option("--out", type=PATH, metavar="DIR", help="Copy the files here as well.")
@json_option
def fetch(name: str, out: Path | None, as_json: bool) -> None:
    """Download the files of a benchmark that `svr data ls` names, or of a data set on the Hugging Face hub.

    \b
    Examples:
      svr data fetch rewardbench
      svr data fetch hf:HuggingFaceH4/ultrafeedback_binarized:test_prefs --out data/
    """
    import shutil

    from svr_async.adapters import get_adapter
    from svr_async.adapters.hub import fetch_files, parse_hub
    from svr_async.core.files import HUB_SCHEME

    found = fetch_files(parse_hub(name)) if name.startswith(HUB_SCHEME) else get_adapter(name).fetch(files=None)
    files = list(found.files)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        files = [Path(shutil.copy(file, out / file.name)) for file in files]
    told = [found.origin, *(f"  {file}  {file.stat().st_size / 2**20:.1f} MiB" for file in files)]
    tell({"origin": found.origin, "files": list(map(str, files))}, "\n".join(told), as_json=as_json, line=True)


@data.command(short_help="Split pairs into train and test by their prompts.")
@click.argument("path", type=PATH)
@_format_option
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    show_default=True,
    metavar="0..1",
    help="Share of the prompts in test.",
)
@click.option(
    "--seed",
    default="",
    metavar="TEXT",
    help="Another word or number draws other prompts; never those of `svr train --seed`.",
)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="For train.jsonl, test.jsonl.")
@reading
@json_option
def split(path: Path, adapter: str, share: float, seed: str, out: Path, as_json: bool, **how: Any) -> None:
    """Split pairs into train.jsonl and test.jsonl by their prompts, so that no prompt is on both sides.

    \b
    Example:  svr data split pairs.jsonl --share 0.2 --out split/
    """
    from svr_async.adapters import get_adapter
    from svr_async.adapters.pair_files import write_pairs
    from svr_async.core.pair import split_by_prompt

    train, test = split_by_prompt(get_adapter(adapter).load(path, **how).pairs, share, salt=f"held-out{seed}")
    counts = {"train": len(train), "test": len(test)}
    if not train or not test:
        raise UsageError(
            f"--share {share:g} puts {len(train)} pairs into train and {len(test)} into test",
            hint="give more pairs, of more prompts, or another share",
        )
    write_pairs(out / "train.jsonl", train)
    write_pairs(out / "test.jsonl", test)
    told = f"{len(train):,} pairs in {out / 'train.jsonl'}, {len(test):,} in {out / 'test.jsonl'}"
    tell(counts, told, as_json=as_json, line=True)


@data.command(short_help="Count pairs that overlap with benchmarks, and leave them out.")
@click.argument("path", type=PATH, metavar="TRAIN")
@_format_option
@click.option("--against", multiple=True, required=True, metavar="NAME=PATH", help="A benchmark's file; repeatable.")
@click.option("--out", type=PATH, metavar="FILE", help="Write the clean pairs: .jsonl, .jsonl.gz.")
@json_option
def contamination(path: Path, adapter: str, against: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Count the pairs of TRAIN that share a run of 13 words with a benchmark, before and after dropping ties.

    Case, punctuation and HTML aside, in prompts and both responses: `--decontaminate` of svr train.

    \b
    Example:  svr data contamination train.jsonl --against rubricbench=rb.parquet --out clean.jsonl
    """
    from svr_async.training.bank.decontaminate import HEADS
    from svr_async.training.running.data import contamination_of

    found = contamination_of(path, adapter, against, out)
    tell(found.to_json, lambda: safe_console().print(plain_table(HEADS, found.rows())), as_json=as_json)
    if not as_json:
        click.echo(found.sentence + (f", in {out}" if out else ""))


_FACTS = ("chance", "path", "origin", "encoding", "rows", "problems", "pairs", "labels", "A is better", "digest",
          "notes", "rubrics", "domains")  # fmt: skip


def _facts(dataset: Dataset, row: int) -> dict[str, Any]:
    """Return the facts about a data set as JSON values, with pair number `row`; UsageError if there are fewer pairs."""
    if row > len(dataset.pairs):
        raise UsageError(f"--row {row}: there are {len(dataset.pairs)} pairs", hint="give a smaller row")
    pair = dataset.pairs[row - 1]
    return {
        "path": str(dataset.source),
        "origin": dataset.origin,
        "encoding": dataset.encoding,
        "rows": dataset.n_rows,
        "problems": [
            {"what": one.what, "rows": one.count, "first": one.first, "kept": one.kept} for one in dataset.problems
        ],
        "pairs": len(dataset.pairs),
        "digest": dataset.digest,
        "labels": list(dataset.readings),
        "A is better": sum(p.chosen_first for p in dataset.pairs),
        "left out": dataset.left_out(),
        "official": dataset.official,
        "notes": list(dataset.notes),
        "rubrics": _rubrics(dataset),
        "domains": dict(Counter(p.domain for p in dataset.pairs)),
        "pair": {
            "id": pair.id,
            "domain": pair.domain,
            "subset": pair.subset,
            "better": pair.gold.value if pair.gold else None,
            "prompt": prompt_text(pair.prompt),
            "response_a": pair.response_a,
            "response_b": pair.response_b,
            "rubrics": [text if points is None else f"{text} ({points:+g})" for text, points in pair.human_rubrics],
        },
    }


def _rubrics(dataset: Dataset) -> str:
    """Count the rubrics of the pairs, and those with negative points."""
    found = sum(len(pair.rubrics) for pair in dataset.pairs)
    negative = sum(points < 0 for pair in dataset.pairs for points in pair.points)
    return (f"{found:,}" + (f", {negative:,} with negative points" if negative else "")) if found else ""


def _told(dataset: Any) -> str:
    from svr_async.evaluation.wording import left_out

    odd = left_out(dataset.left_out())
    return f" ({odd})" if odd else ""


def _listed(value: Any) -> str:
    """Return counts, problems and lists as text."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {count:,}" for name, count in value.items())
    if not isinstance(value, list):
        return str(value)
    return "; ".join(_problem(one) if isinstance(one, dict) else one for one in value)


def _problem(one: dict[str, Any]) -> str:
    more = ", …" if one["rows"] > len(one["first"]) else ""
    end = "" if one["kept"] else " (left out)"
    return f"\n  {one['rows']:,} × {one['what']}{end}: {', '.join(one['first'])}{more}"


def _print(facts: dict[str, Any]) -> None:
    from rich.markup import escape

    from svr_async.core.safetext import for_terminal

    console = styled_console()
    console.print(f"[bold]{facts['title']}[/]")
    for column, text in facts.get("schema", {}).items():
        console.print(f"  [cyan]{escape(column)}[/]  {escape(text)}")
    for name in _FACTS:
        if facts.get(name):
            told = escape(for_terminal(_listed(facts[name])))
            console.print(f"[dim]{name}[/]  {told}", soft_wrap=name != "domains")
    for name, text in ((name, text) for name, text in facts.get("pair", {}).items() if text):
        shown = "\n".join(text) if isinstance(text, list) else str(text)
        console.print(f"[cyan]{name}[/]  {escape(for_terminal(shown[:2000]))}")
