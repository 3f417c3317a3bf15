"""`svr data`: benchmarks and training sets, where they come from and what a row looks like."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from svr_async.adapters import ADAPTERS, Dataset, get_adapter
from svr_async.adapters.hub import fetch_files, parse_hub
from svr_async.adapters.pair_files import write_pairs
from svr_async.adapters.records import INVALID
from svr_async.commands import options as opt
from svr_async.commands.options import option
from svr_async.commands.screen import tell
from svr_async.core.files import HUB_SCHEME
from svr_async.core.pair import prompt_text, split_by_prompt
from svr_async.core.table import Line, Part, Table
from svr_async.errors import UsageError

OPEN_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
MOST_CHARS = 2_000  # of a text of the pair


@click.group()
def data() -> None:
    """Benchmarks, training sets and files of pairs.

    \b
    Examples:
      svr data check my_pairs.csv
      svr data split my_pairs.csv --out split/
    """


@data.command("ls")
@opt.json
def list_data(as_json: bool) -> None:
    """List the data sets that have an adapter.

    \b
    Example:  svr data ls
    """
    rows: list[dict[str, Any]] = [
        {"name": a.name, "title": a.title, "hub": a.hub_id, "licence": a.licence, "training": a.training}
        for a in ADAPTERS.values()
    ]
    listed = [(row["name"], row["title"], row["hub"] or "– (--data PATH)", row["licence"]) for row in rows]
    tell(rows, [Table(("name", "title", "on the hub", "licence"), listed, texts=3)], as_json=as_json)


@data.command(short_help="List all problems of a file, and how it would be read.")
@click.argument("path", type=opt.PATH)
@opt.layout
@option("--row N", "Which pair to show.", type=opt.COUNT, default=1)
@opt.reading
@opt.json
def check(path: Path, adapter: str, row: int, as_json: bool, lenient: bool, **how: Any) -> int:
    """Read opt.PATH (a file, a folder, - or hf:org/name) as a run would: all problems, how labels are read, one pair.

    Ends with exit code 2 if a run would stop at an invalid row.

    \b
    Examples:
      svr data check my_pairs.csv
      svr data check votes.jsonl --label-map 1=a,2=b,0=tie --row 7
    """
    known = get_adapter(adapter)
    dataset = known.load(path, lenient=True, **how)
    chance = {"chance": known.chance} if known.chance else {}
    facts = {"name": known.name, "title": known.title, **chance, **_facts(dataset, row)}
    tell(facts, _facts_parts(facts), as_json=as_json)
    invalid = sum(count for reason, count in dataset.skipped.items() if reason.startswith(INVALID))
    if invalid and not lenient:
        click.echo(f"a run would stop at the first invalid row ({invalid} in all); --lenient leaves them out", err=True)
        return 2
    return 0


@data.command(short_help="Download a benchmark, or a data set of the hub.")
@click.argument("name", metavar="NAME|hf:org/name[@revision][:split]")
@option("--out DIR", "Copy the files here as well.", type=opt.FOLDER)
@opt.json
def fetch(name: str, out: Path | None, as_json: bool) -> None:
    """Download the files of a benchmark that `svr data ls` names, or of a data set on the Hugging Face hub.

    \b
    Examples:
      svr data fetch rewardbench
      svr data fetch hf:HuggingFaceH4/ultrafeedback_binarized:test_prefs --out d/
    """
    found = fetch_files(parse_hub(name)) if name.startswith(HUB_SCHEME) else get_adapter(name).fetch(files=None)
    files = list(found.files)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        files = [Path(shutil.copy(file, out / file.name)) for file in files]
    lines = [found.origin, *(f"  {file}  {file.stat().st_size / 2**20:.1f} MiB" for file in files)]
    tell({"origin": found.origin, "files": list(map(str, files))}, "\n".join(lines), as_json=as_json, line=True)


@data.command(short_help="Split pairs into train and test by their prompts.")
@click.argument("path", type=opt.PATH)
@opt.layout
@option("--share 0..1", "Share of the prompts in test.", type=OPEN_SHARE, default=0.2)
@option("--seed N", "Seed; other prompts than those of `svr train --seed`.", type=opt.SEED, default=0)
@option("--out DIR", "For train.jsonl, test.jsonl.", type=opt.FOLDER, required=True)
@opt.reading
@opt.json
def split(path: Path, adapter: str, share: float, seed: int, out: Path, as_json: bool, **how: Any) -> None:
    """Split pairs into train.jsonl and test.jsonl by their prompts, so that no prompt is on both sides.

    \b
    Example:  svr data split pairs.jsonl --share 0.2 --out split/
    """
    salt = f"held-out{seed or ''}"
    train, test = split_by_prompt(get_adapter(adapter).load(path, **how).pairs, share, salt=salt)
    counts = {"train": len(train), "test": len(test)}
    if not train or not test:
        raise UsageError(
            f"--share {share:g} puts {len(train)} pairs into train and {len(test)} into test",
            hint="give more pairs, of more prompts, or another share",
        )
    write_pairs(out / "train.jsonl", train)
    write_pairs(out / "test.jsonl", test)
    text = f"{counts['train']:,} pairs in {out / 'train.jsonl'}, {counts['test']:,} in {out / 'test.jsonl'}"
    tell(counts, text, as_json=as_json, line=True)


@data.command(short_help="Count pairs that overlap with benchmarks, and leave them out.")
@click.argument("path", type=opt.PATH, metavar="TRAIN")
@opt.layout
@option("--against NAME=PATH", "A benchmark's file; repeatable.", multiple=True, required=True)
@option("--out FILE", "Write the clean pairs: .jsonl, .jsonl.gz.", type=opt.PATH)
@opt.json
def contamination(path: Path, adapter: str, against: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Count the pairs of TRAIN that share a run of 13 words with a benchmark, before and after dropping ties.

    Case, punctuation and HTML are ignored. `svr train --decontaminate` leaves out the same pairs.

    \b
    Example:  svr data contamination train.jsonl --against rubricbench=rb.parquet
    """
    from svr_async.training.bank.overlap import contamination_parts
    from svr_async.training.settings import contamination_of

    counts = contamination_of(path, adapter, against, out)
    tell(counts, contamination_parts(counts, str(out or "")), as_json=as_json)


_FACTS = ("chance", "path", "origin", "encoding", "rows", "problems", "pairs", "labels", "A is better", "digest",
          "notes", "rubrics", "domains")  # fmt: skip


def _facts(dataset: Dataset, row: int) -> dict[str, Any]:
    """Return the facts about a data set as JSON values, with pair number `row`; UsageError if there are fewer pairs."""
    if row > len(dataset.pairs):
        raise UsageError(f"--row {row}: there are {len(dataset.pairs)} pairs", hint="give a smaller row")
    pair, every = dataset.pairs[row - 1], dataset.pairs
    n_rubrics, negative = sum(len(p.rubrics) for p in every), sum(points < 0 for p in every for points in p.points)
    facts = {name: getattr(dataset, name) for name in ("origin", "encoding", "digest", "official")}
    return facts | {
        "path": str(dataset.source),
        "rows": dataset.n_rows,
        "problems": [
            {"what": one.what, "rows": one.count, "first": one.first, "kept": one.kept} for one in dataset.problems
        ],
        "pairs": len(every),
        "labels": list(dataset.readings),
        "A is better": sum(p.chosen_first for p in every),
        "left out": dataset.left_out(),
        "notes": list(dataset.notes),
        "rubrics": f"{n_rubrics:,}" + f", {negative:,} with negative points" * (negative > 0) if n_rubrics else "",
        "domains": dict(Counter(p.domain for p in every)),
        "pair": {name: getattr(pair, name) for name in ("id", "domain", "subset", "response_a", "response_b")}
        | {
            "better": pair.gold.value if pair.gold else None,
            "prompt": prompt_text(pair.prompt),
            "rubrics": [text if points is None else f"{text} ({points:+g})" for text, points in pair.human_rubrics],
        },
    }


def _facts_parts(facts: dict[str, Any]) -> Iterator[Part]:
    """Yield the facts about a data set, then the pair."""
    yield Line(facts["title"])
    for name in _FACTS:
        value: Any = facts.get(name) or []
        if name == "problems":
            for one in value:
                more = ", …" if one["rows"] > len(one["first"]) else ""
                end = "" if one["kept"] else " (left out)"
                yield Line(f"{one['rows']:,} × {one['what']}{end}: {', '.join(one['first'])}{more}", label="problem")
        elif value:
            counts = value.items() if isinstance(value, dict) else ()
            listed = [f"{key}: {count:,}" for key, count in counts] or (value if isinstance(value, list) else [value])
            yield Line(", ".join(map(str, listed)), label=name, wrapped=True)
    for name, text in facts["pair"].items():
        if text:
            shown = "; ".join(text) if isinstance(text, list) else str(text)
            yield Line(shown[:MOST_CHARS], label=name, wrapped=True)
