"""`svr train`, `svr fit` and `svr stages`: from preference pairs to a bank, in one go or stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from svr_async.commands import options as opt
from svr_async.commands.log_flags import observed
from svr_async.commands.options import GroupedCommand, option, together
from svr_async.errors import UsageError

learned = together(
    opt.preset,
    option(
        "--publish",
        "Which round becomes the final bank: auto is the last unless an earlier one is clearly better.",
        type=click.Choice(["auto", "last", "best"]),
    ),
    option("--author J", "The text judge, or rules, that writes rubrics and probes. Default: the judge."),
    option(
        "--same-criterion",
        "How to find rubrics that state the same criterion. Default: author if a model writes.",
        type=click.Choice(["author", "text", "off"]),
    ),
    option("--dev-share 0..1", "Share of the prompts held out to check the bank. Default: 0.05.", type=opt.SHARE),
    opt.pool_options,
    option("--rubrics-per-call N", "Rubrics asked at a time. Default: 9 for text judges.", type=opt.COUNT),
    option("--top-k N", "Rubrics used for a prompt. Default: 6; 256 for the rules judge.", type=opt.COUNT),
    option(
        "--ablate",
        "Leave a part of the method out; repeatable.",
        multiple=True,
        type=click.Choice(["induction", "support", "probe", "diversity"]),
    ),
    option(
        "--decontaminate BENCH=PATH",
        "Leave out pairs that share 13 words in a row with this benchmark.",
        multiple=True,
    ),
    opt.learning_curve,
    opt.licence,
    group="How the bank is learned",
)


@click.command(cls=GroupedCommand, context_settings=opt.HELP)
@opt.pairs_options
@option("--out DIR", "Folder for bank/, the record and the stages.", type=opt.FOLDER, required=True)
@option("--rounds N", "Rounds of Algorithm 1.", type=opt.COUNT, default=3)
@learned
@opt.reading
@opt.limited
@opt.common
@opt.track
@observed
def train(**flags: Any) -> int:
    """Train a bank on PAIRS: induce rubrics, judge, fit, prune, find the boundary, and repeat.

    Repeat the command to continue a stopped run.

    \b
    Examples:
      svr train pairs.jsonl --judge rules --out banks/mine
      svr train pairs.jsonl --judge http://127.0.0.1:8000/v1#my-model --out mine
    """
    from svr_async.commands.train_run import run_train

    return run_train(flags)


@click.command(cls=GroupedCommand, context_settings=opt.HELP)
@click.argument("store", type=opt.PATH)
@option("--out DIR", "Folder of the bank.", type=opt.FOLDER, required=True)
@option("--preset", "How to fit. Default: as the store was trained.", type=click.Choice(["default", "paper"]))
@option("--epochs N", "Epochs of --preset paper. Default: 8.", type=click.IntRange(0))
@option("--seed N", "Seed. Default: the store's, else 42.", type=opt.SEED)
@option("--top-k N", "Rubrics used for a prompt. Default: as the store was judged.", type=opt.COUNT)
@opt.learning_curve
@option("--sweep NAME=VALUES", "Fit all combinations of values, as sparsity=0.03,0.1.", multiple=True)
@opt.licence
@opt.quiet
@opt.common
@opt.track
def fit(**flags: Any) -> int:
    """Fit selector and weights on a feature STORE and write a bank. Uses the GPU if JAX finds one.

    Fits, prunes and calibrates as training does: the store of a round of svr train gives that round's bank. Repeat
    the command to continue a stopped fit.

    \b
    Examples:
      svr-fit store/ --out banks/mine --top-k 12
      svr-fit banks/mine/stores/round-3 --out banks/again
      svr-fit store/ --out swept --sweep seed=0..4 --sweep sparsity=0.03,0.1,0.3
    """
    from svr_async.commands.train_run import run_fit

    return run_fit(flags)


@click.group()
def stages() -> None:
    """Run the stages of training one by one: induce, judge, then svr fit.

    \b
    Example:  svr stages induce pairs.jsonl --judge rules --out candidates.jsonl
    """


stage = together(
    opt.pairs_options,
    opt.few_limits,
    together(opt.retry_errors, opt.min_coverage, group="The run"),
    together(opt.json, group="Output and settings"),
)


@stages.command(cls=GroupedCommand, context_settings=opt.HELP)
@stage
@option("--out FILE.jsonl", "File of the candidates.", type=opt.PATH, required=True)
def induce(**flags: Any) -> int:
    """Induce candidate rubrics from PAIRS; near-identical ones are merged, held-out pairs are left out.

    \b
    Example:  svr stages induce pairs.jsonl --judge rules --out candidates.jsonl
    """
    from svr_async.commands.train_run import run_induce

    return run_induce(flags)


@stages.command(cls=GroupedCommand, context_settings=opt.HELP)
@stage
@together(opt.shard, opt.ray, group="The endpoint")
@option("--bank DIR", "Judge on the rubrics of this bank.", type=opt.PATH)
@option("--candidates FILE.jsonl", "Judge on the rubrics that svr stages induce wrote.", type=opt.PATH)
@opt.pool_options
@option("--out DIR", "The feature store.", type=opt.FOLDER, required=True)
def judge(**flags: Any) -> int:
    """Judge pools of rubrics on PAIRS and write a feature store for svr-fit.

    \b
    Example:  svr stages judge p.jsonl --candidates c.jsonl --judge rules --out s
    """
    from svr_async.commands.train_run import run_judge

    return run_judge(flags)


@stages.command()
@click.argument("folder", type=opt.PATH, metavar="STORE")
@option("--pairs FILE", "Make STORE of these preference pairs.", type=opt.PATH)
@opt.layout
@option("--rubrics FILE.jsonl", "With --pairs: a rubric's text on each line.", type=opt.PATH)
@option("--z FILE", "With --pairs: z by pair and rubric, .npz or .parquet.", type=opt.PATH)
@option("--judge TEXT", "Who judged, for the bank's card.", default="imported")
@option("--seed N", "Seed.", type=click.IntRange(0, (1 << 32) - 1), default=42)
@opt.json
def store(folder: Path, as_json: bool, **flags: Any) -> None:
    """Check a feature STORE and show what it holds; with --pairs, --rubrics and --z, make it first (docs/store.md).

    \b
    Examples:
      svr stages store banks/mine/stores/round-3
      svr stages store store/ --pairs pairs.jsonl --rubrics r.jsonl --z z.npz
    """
    from svr_async.adapters import get_adapter
    from svr_async.commands.screen import tell
    from svr_async.core.table import Line
    from svr_async.training.imported import facts_in_words, import_store, store_facts
    from svr_async.training.rounds.config import config_of
    from svr_async.training.rounds.store import load_store
    from svr_async.training.settings import refuse_benchmark_for_training

    files = [flags[name] for name in ("pairs", "rubrics", "z")]
    if any(files) and not all(files):
        raise UsageError(
            "a store is made of --pairs, --rubrics and --z", hint="give all three, or only STORE to show it"
        )
    if all(files):
        refuse_benchmark_for_training(flags["pairs"], flags["adapter"])
        dataset = get_adapter(flags["adapter"]).load(flags["pairs"])
        options = {"config": config_of("default", seed=flags["seed"]), "judge": flags["judge"]}
        import_store(dataset.pairs, dataset.digest, flags["rubrics"], flags["z"], folder, **options)
    facts = store_facts(load_store(folder), folder)
    size = f"{folder}, {facts['bytes'] / 2**20:.1f} MiB"
    lines = [Line(text, label=label or " ") for label, text in facts_in_words(facts)]
    tell(facts, [Line(size, label="store"), *lines], as_json=as_json)
