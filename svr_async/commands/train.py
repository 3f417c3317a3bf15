"""`svr train`, `svr fit` and `svr stages`: from preference pairs to a bank, in one go or stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from svr_async.commands.log_flags import observed
from svr_async.commands.options import (
    HELP,
    PATH,
    GroupedCommand,
    asking,
    common,
    few_limits,
    json_option,
    learning_curve_option,
    license_option,
    limited,
    min_coverage_option,
    per_call_option,
    pool_option,
    pool_size_option,
    ray_option,
    retry_errors_option,
    shard_option,
    stage_asking,
    track_option,
)
from svr_async.errors import UsageError


@click.command(cls=GroupedCommand, context_settings=HELP)
@asking
@limited
@shard_option
@ray_option
@retry_errors_option
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Where bank/, the record and the stages go.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="Rounds of Algorithm 1."
)
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="Our default, or the paper's text in every part (docs/fit.md has the table), its prompts and decontamination.",
)
@click.option(
    "--publish",
    type=click.Choice(["auto", "last", "best"]),
    help="Whose bank is published: the last round's, the best's by dev accuracy, or, with auto, the last's unless an "
    "earlier one is better by more than a standard error. Default: auto; last with --preset paper.",
)
@click.option(
    "--author", metavar="J", help="Who writes rubrics and probes, a text judge or rules, where that is not the judge."
)
@click.option(
    "--same-criterion",
    type=click.Choice(["author", "text", "off"]),
    help="How rubrics that state one criterion in other words are found: by asking the author, by text and verdicts, "
    "or not. Default: author if a model writes; off with --preset paper.",
)
@click.option(
    "--dev-share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="0..1",
    help="Share of the prompts held out to check the bank. Default: 0.05.",
)
@pool_option
@pool_size_option
@per_call_option
@click.option(
    "--top-k",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rubrics used for a prompt. Default: 6; at most 256 for the rules judge, which is free.",
)
@click.option(
    "--ablate",
    multiple=True,
    type=click.Choice(["induction", "support", "probe", "diversity"]),
    help="Leave a part out; may be given again. Without support, pairs are drawn at random, as many as there would be; "
    "with --preset paper every pair stands for them.",
)
@click.option(
    "--decontaminate",
    multiple=True,
    metavar="BENCH=PATH",
    help="Leave out pairs that share 13 words in a row with this benchmark; RubricBench with --preset paper.",
)
@learning_curve_option
@license_option
@common
@track_option
@observed
def train(**flags: Any) -> int:
    """Train a bank on PAIRS: induce rubrics, judge, fit, prune, find the boundary, and again.

    Repeat the command to continue a stopped run.

    \b
    Examples:
      svr train pairs.jsonl --judge rules --out banks/mine
      svr train pairs.jsonl --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1 --out banks/mine
    """
    from svr_async.commands.train_run import run_train

    return run_train(flags)


@click.command(cls=GroupedCommand, context_settings=HELP)
@click.argument("store", type=PATH)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Where the bank goes.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    help="Default: as the store was trained, else our default fit; paper is the paper's text.",
)
@click.option("--epochs", type=click.IntRange(min=0), metavar="N", help="Epochs of --preset paper, instead of 8.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Default: the store's, 42 where it has none.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Fit this often; keep the best.",
)
@click.option(
    "--top-k",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rubrics used for a prompt. Default: as the store was judged.",
)
@learning_curve_option
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=VALUES",
    help="Fit with each value, as seed=0..9 or sparsity=0.03,0.1, all combinations; or a .toml or .json file of them.",
)
@license_option
@click.option("-q", "--quiet", is_flag=True, help="No table of epochs.")
@common
@track_option
def fit(**flags: Any) -> int:
    """Fit selector and weights on a feature STORE and write a bank. Uses the GPU where JAX finds one.

    Fits, prunes and calibrates as training does: the store of a round of svr train gives that round's bank. Repeat
    the command to continue a stopped fit.

    \b
    Examples:
      svr-fit store/ --out banks/mine --seeds 5
      svr-fit banks/mine/stores/round-3 --out banks/again
      svr-fit store/ --out banks/swept --sweep seed=0..4 --sweep sparsity=0.03,0.1,0.3
    """
    from svr_async.commands.train_run import run_fit

    return run_fit(flags)


@click.group()
def stages() -> None:
    """Run the stages of training one by one: induce, judge, then svr fit.

    \b
    Example:  svr stages induce pairs.jsonl --judge rules --out candidates.jsonl
    """


@stages.command(cls=GroupedCommand, context_settings=HELP)
@stage_asking
@few_limits
@retry_errors_option
@min_coverage_option
@click.option("--descriptive", is_flag=True, help="Describe good responses instead of contrasting two (the ablation).")
@click.option("--out", type=PATH, required=True, metavar="FILE.jsonl", help="Where candidates go.")
@json_option
def induce(**flags: Any) -> int:
    """Induce candidate rubrics from PAIRS; near-identical ones are merged, dev pairs are left out.

    \b
    Example:  svr stages induce pairs.jsonl --judge rules --out candidates.jsonl
    """
    from svr_async.commands.train_run import run_induce

    return run_induce(flags)


@stages.command(cls=GroupedCommand, context_settings=HELP)
@stage_asking
@few_limits
@shard_option
@ray_option
@retry_errors_option
@min_coverage_option
@click.option("--bank", type=PATH, metavar="DIR", help="Judge on the rubrics of this bank.")
@click.option("--candidates", type=PATH, metavar="FILE.jsonl", help="Judge on what svr stages induce wrote.")
@pool_option
@pool_size_option
@click.option("--out", type=PATH, required=True, metavar="DIR", help="The feature store.")
@json_option
def judge(**flags: Any) -> int:
    """Judge pools of rubrics on PAIRS and write a feature store for svr-fit.

    \b
    Example:  svr stages judge pairs.jsonl --candidates candidates.jsonl --judge rules --out store/
    """
    from svr_async.commands.train_run import run_judge

    return run_judge(flags)


@stages.command()
@click.argument("folder", type=PATH, metavar="STORE")
@click.option("--pairs", type=PATH, metavar="FILE", help="Make STORE of these preference pairs.")
@click.option("--format", "adapter", default="pairs", show_default=True, metavar="NAME", help="Layout of --pairs.")
@click.option("--rubrics", type=PATH, metavar="FILE.jsonl", help="With --pairs: a rubric's text on each line.")
@click.option("--z", type=PATH, metavar="FILE", help="With --pairs: judged entries, .npz or .parquet.")
@click.option("--judge", default="imported", show_default=True, metavar="TEXT", help="Who judged, for the bank's card.")
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 1), default=42, show_default=True, metavar="N", help="Seed.")
@json_option
def store(folder: Path, as_json: bool, **flags: Any) -> None:
    """Check a feature STORE and show what it holds; with --pairs, --rubrics and --z, make it first (docs/store.md).

    \b
    Examples:
      svr stages store banks/mine/stores/round-3
      svr stages store store/ --pairs pairs.jsonl --rubrics rubrics.jsonl --z z.npz
    """
    from svr_async.adapters import get_adapter
    from svr_async.training.rounds.config import FitTerms
    from svr_async.training.running.data import refuse_benchmark_for_training
    from svr_async.training.store.facts import store_facts
    from svr_async.training.store.files import load_store
    from svr_async.training.store.imported import ImportOptions, import_store

    files = [flags[name] for name in ("pairs", "rubrics", "z")]
    if not any(files):
        _print(folder, store_facts(load_store(folder)), as_json=as_json)
        return
    if not all(files):
        raise UsageError("a store is made of --pairs, --rubrics and --z", hint="give all three, or none to look at one")
    refuse_benchmark_for_training(flags["pairs"])
    refuse_benchmark_for_training(flags["adapter"])
    dataset = get_adapter(flags["adapter"]).load(flags["pairs"])
    options = ImportOptions(terms=FitTerms(seed=flags["seed"]), judge=flags["judge"])
    made = import_store(dataset.pairs, dataset.digest, flags["rubrics"], flags["z"], folder, options)
    _print(folder, store_facts(made), as_json=as_json)


def _print(folder: Path, facts: dict[str, Any], *, as_json: bool) -> None:
    from svr_async.commands.screen import tell
    from svr_async.core.safetext import one_line
    from svr_async.training.store.facts import facts_in_words

    size = f"{facts['bytes'] / 2**20:.1f} MiB, schema {facts['schema_version']}"
    lines = (f"{label:<11}{one_line(text, 200)}" for label, text in facts_in_words(facts))
    tell(facts, "\n".join([f"store      {folder}, {size}", *lines]), as_json=as_json)
