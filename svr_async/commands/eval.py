"""`svr eval`, also installed as `svr-eval`: judges a benchmark or a file of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.log_flags import observed
from svr_async.commands.options import (
    HELP,
    PATH,
    USUAL,
    GroupedCommand,
    common,
    dry_run_option,
    given_flags,
    judge_option,
    limit_option,
    limited,
    min_coverage_option,
    offline_option,
    quiet_option,
    ray_option,
    reading,
    retry_errors_option,
    shard_option,
    together,
    top_k_option,
    track_option,
)
from svr_async.scoring.methods.registry import NAMES

if TYPE_CHECKING:
    from svr_async.commands.watching import Screen
    from svr_async.evaluation.run import EvalResult
    from svr_async.evaluation.settings import EvalSettings
    from svr_async.evaluation.setup import PreparedRun

ENDPOINT_ONLY = (
    "base_url", "concurrency", "rpm", "tpm", "timeout", "give_up_after", "budget", "max_calls", "retry_errors",
    "strict_model", "prompts", "cache", "ray",
)  # fmt: skip
GROUPS = {
    **{title: names for title, names in USUAL.items() if title != "How the bank is learned"},
    "How a pair is judged": ("preset", *USUAL["How a pair is judged"]),
}
several_judges = together(
    click.option(
        "--audit-below",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MARGIN",
        help="Judge in both orders only if the first |margin| is below this.",
    ),
    click.option("--jury", metavar="J1,J2,…", help="Several judges that all see every pair, instead of --judge."),
    click.option(
        "--jury-rule",
        type=click.Choice(["mean", "majority"]),
        default="mean",
        show_default=True,
        metavar="RULE",
        help="Combine a jury by the mean of the margins, or by majority.",
    ),
    click.option("--escalate-to", metavar="J", help="Ask this judge too if the first is unsure; its verdict decides."),
    click.option(
        "--escalate-below",
        type=click.FloatRange(min=0),
        metavar="MARGIN",
        help="Unsure is a |margin| below this, a tie, or no verdict. Default: only the last two.",
    ),
)


@click.command("eval", cls=GroupedCommand, groups=GROUPS, context_settings=HELP)
@click.argument("benchmark", metavar="SOURCE")
@judge_option
@click.option(
    "--method",
    type=click.Choice(NAMES),
    metavar="METHOD",
    help="How a pair is judged. Default: svr with --bank, fixed with --rubrics, else direct, without rubrics. "
    f"One of {', '.join(NAMES)}.",
)
@click.option("--option", multiple=True, metavar="NAME=VALUE", help="An option of the method (docs/methods.md).")
@click.option("--bank", metavar="BANK", help="A trained bank: a folder, or hf:user/name[@revision].")
@top_k_option
@click.option("--rephrase", is_flag=True, help="Fit the bank's rubrics to each prompt first: one more call a prompt.")
@click.option("--rubrics", type=PATH, metavar="FILE", help="A fixed list of rubrics: .txt, .json or .jsonl.")
@click.option("--data", type=PATH, metavar="PATH", help="The benchmark's file, instead of a download.")
@click.option("--format", "adapter", metavar="NAME", help="Layout of SOURCE, if it is a file. Default: any pairs.")
@click.option("--sample", is_flag=True, help="Judge the small sample that ships with the package.")
@limit_option
@click.option("--domain", multiple=True, metavar="NAME", help="Only this domain. Repeatable.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    metavar="PRESET",
    help="With paper, prompts in the paper's layout (docs/reproduction.md).",
)
@click.option(
    "--order",
    type=click.Choice(["hash", "ab", "ba", "both"]),
    default="hash",
    show_default=True,
    metavar="ORDER",
    help="Which response is shown first: hash, ab, ba or both.",
)
@click.option(
    "--audit",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    metavar="0..1",
    help="Share of pairs judged in both orders.",
)
@several_judges
@limited
@shard_option
@ray_option
@dry_run_option
@offline_option
@click.option("--resume/--no-resume", default=True, help="Continue in an existing run folder (the default).")
@retry_errors_option
@min_coverage_option
@click.option(
    "--tie-credit",
    type=click.Choice(["0", "0.5"]),
    default="0",
    show_default=True,
    metavar="0|0.5",
    help="Credit for a tie in the official scores.",
)
@reading
@click.option("--seed", default="svr", show_default=True, metavar="TEXT", help="Salt of orders and audits.")
@click.option("--out", type=PATH, metavar="DIR", help="Run folder. Default: runs/<bench>-<method>-<judge>-<digest>.")
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Print the reason of each retry.")
@common
@track_option
@observed
def evaluate(**flags: Any) -> int:
    """Judge SOURCE: a file or folder of pairs, - (standard input), hf:org/name, or a benchmark of `svr data ls`.

    \b
    Examples:
      svr eval rubricbench --sample --judge rules
      svr eval rubricbench --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1
      svr eval total_dataset.json --format rmbench --judge gpt-oss-120b
      svr eval my_pairs.jsonl --judge gpt-oss-120b --method self-rubric --dry-run
      svr eval rubricbench --judge small --escalate-to big --escalate-below 0.5 --audit-below 0.5

    Every option is also a variable (SVR_EVAL_JUDGE is --judge) and a key of a --config file.
    """
    from svr_async.commands.watching import Screen, eval_settings, print_count
    from svr_async.evaluation.run import run_now
    from svr_async.evaluation.setup import prepare
    from svr_async.tracking.facts import of_evaluation
    from svr_async.tracking.hand_over import hand_over

    given = given_flags(click.get_current_context())
    run = prepare(eval_settings(flags, given))
    for note in () if flags["quiet"] else run.dataset.readings:
        click.echo(f"labels: {note}", err=True)
    for note in notes_of(run, given):
        click.echo(f"note: {note}", err=True)
    if run.settings.limits.dry_run:
        print_count(run, as_json=flags["as_json"], verbose=flags["verbose"])
        return 0
    screen = Screen(quiet=flags["quiet"], verbose=flags["verbose"], as_json=flags["as_json"])
    result = run_now(run, screen)
    if not result.signal:
        hand_over(flags["track"], partial(of_evaluation, run.folder), partial(click.echo, err=True))
    return _exit_code(run.settings, result, screen)


def _exit_code(settings: EvalSettings, result: EvalResult, screen: Screen) -> int:
    """Return 0 or the code of a signal; CoverageError if too many pairs have no verdict."""
    import signal

    from svr_async.core.integrity import require_coverage

    metrics = result.metrics
    if result.signal:
        if screen.shutdown is None or not screen.shutdown.hung_up:
            name = signal.Signals(result.signal).name
            click.echo(f"stopped by {name}: {result.left} — run the same command to continue", err=True)
        return 128 + result.signal
    if screen.shutdown is not None and screen.shutdown.hung_up:
        return 128 + result.signal
    if metrics["coverage"] is not None:  # some pair has a right answer
        again = "without --offline they are asked" if settings.limits.offline else "--retry-errors asks again"
        require_coverage(
            metrics["n_total"] - metrics["n_scored"],
            metrics["n_total"],
            settings.min_coverage,
            lack="pairs have no verdict",
            hint=f"{result.folder}/items.jsonl says why; {again}, --min-coverage accepts it",
        )
    return 0


def notes_of(run: PreparedRun, given: frozenset[str]) -> Iterator[str]:
    """Yield flags without effect, and a bank that leaves the decision to the judge; ConfigError for bad prompts."""
    if all(judge.profile is None for judge in run.judges.judges):
        if run.settings.limits.prompts is not None:
            from svr_async.judges.templates import load_templates

            load_templates(run.settings.limits.prompts)
        if names := [f"--{name.replace('_', '-')}" for name in ENDPOINT_ONLY if name in given]:
            verb = "has" if len(names) == 1 else "have"
            yield f"{', '.join(names)} {verb} no effect: judge {run.judges.name} sends nothing"
    if "top_k" in given and run.settings.bank is None:
        yield f"--top-k has no effect: {run.method.name} has no bank to choose rubrics from"
    if run.method.facts.bank is not None and run.method.facts.bank.direct:
        yield (
            "on held-out pairs the bank was no better than guessing, so the judge is asked directly; "
            "--top-k uses its rubrics anyway"
        )
