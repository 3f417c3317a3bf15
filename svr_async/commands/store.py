"""`svr store`: what a feature store holds, and making one of arrays that people bring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from svr_async.commands.options import PATH, common, reading


@click.group()
def store() -> None:
    """Feature stores: what svr-fit reads.

    \b
    Example:  svr store show banks/mine/stores/round-3
    """


@store.command()
@click.argument("folder", type=PATH, metavar="STORE")
@common
def show(folder: Path, as_json: bool) -> None:
    """Check every file of a STORE and say what it holds.

    \b
    Example:  svr store show store/
    """
    from svr_async.training.store.facts import store_facts
    from svr_async.training.store.reader import load_store

    _print(folder, store_facts(load_store(folder)), as_json=as_json)


@store.command("import", short_help="Make a store of pairs, rubrics and z.")
@click.option("--pairs", type=PATH, required=True, metavar="FILE", help="Preference pairs.")
@click.option(
    "--format", "adapter", default="pairs", show_default=True, metavar="NAME", help="The adapter that reads the pairs."
)
@click.option("--rubrics", type=PATH, required=True, metavar="FILE.jsonl", help="A rubric's text a line.")
@click.option("--z", type=PATH, required=True, metavar="FILE", help="Judged entries: .npz or .parquet.")
@click.option(
    "--dev-share",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.05,
    show_default=True,
    help="Share of the prompts held out to measure on.",
)
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 1), default=42, show_default=True, help="Seed of the split.")
@click.option("--judge", default="imported", show_default=True, metavar="TEXT", help="Who judged, for the bank's card.")
@click.option("--out", type=PATH, required=True, metavar="STORE", help="The feature store.")
@reading
@common
def import_(as_json: bool, **flags: Any) -> None:
    """Make a feature store of pairs, rubrics and a z for some of the entries between them; docs/store.md has the forms.

    \b
    Example:  svr store import --pairs pairs.jsonl --rubrics rubrics.jsonl --z z.npz --out store/
    """
    from svr_async.adapters import get_adapter, refuse_benchmark_for_training
    from svr_async.training.rounds.fit_terms import FitTerms
    from svr_async.training.store.facts import store_facts
    from svr_async.training.store.imported import ImportOptions, import_store

    refuse_benchmark_for_training(flags["pairs"])
    refuse_benchmark_for_training(flags["adapter"])
    dataset = get_adapter(flags["adapter"]).load(
        flags["pairs"], lenient=flags["lenient"], columns=flags["columns"], label_map=flags["label_map"]
    )
    options = ImportOptions(dev_share=flags["dev_share"], terms=FitTerms(seed=flags["seed"]), judge=flags["judge"])
    files = flags["rubrics"], flags["z"], flags["out"]
    made = import_store(dataset.pairs, dataset.digest, *files, options)
    _print(flags["out"], store_facts(made), as_json=as_json)


def _print(folder: Path, facts: dict[str, Any], *, as_json: bool) -> None:
    from svr_async.commands.screen import tell
    from svr_async.core.safetext import one_line
    from svr_async.training.store.facts import facts_in_words

    size = f"{facts['bytes'] / 2**20:.1f} MiB, schema {facts['schema_version']}"
    lines = (f"{label:<11}{one_line(text, 200)}" for label, text in facts_in_words(facts))
    tell(facts, "\n".join([f"store      {folder}, {size}", *lines]), as_json=as_json)
