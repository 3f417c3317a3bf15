"""`svr gate`: does a run lose to its baseline by more than is tolerated? For people, and for continuous integration."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import PATH, common, noise_option, seed_option


@click.command()
@click.argument("run", type=PATH)
@click.option("--baseline", required=True, type=PATH, metavar="RUN", help="The run to hold up to.")
@click.option(
    "--margin",
    type=click.FloatRange(0, 100),
    default=0.0,
    show_default=True,
    metavar="POINTS",
    help="The loss of strict accuracy that is tolerated.",
)
@click.option("--strict", is_flag=True, help="Exit 9 also where the pairs do not decide.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["judge", "model", "prompts", "settings"]),
    help="Let this differ all the same, as where it is what was changed; it is named. Repeatable.",
)
@noise_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github", "md"]),
    default="text",
    show_default=True,
    help="For people, machines, GitHub's annotations, or a comment.",
)
@seed_option
@common
def gate(
    run: Path,
    baseline: Path,
    margin: float,
    strict: bool,
    allow: tuple[str, ...],
    noise: Path | None,
    form: str,
    seed: int,
    as_json: bool,
) -> None:
    """Fail, with exit 9, where RUN lost more than --margin to its baseline.

    The rule, on the paired 95 % interval of the difference in strict accuracy, pairs of a prompt drawn together: FAILED
    where all of it lies below −margin and the exact paired test has p ≤ 0.05; PASSED where its lower end is at or above
    −margin; else UNDECIDED, a warning with exit 0. Where RUN lost no more than the margin, at most 5 % fail
    (2.5 % in the long run); a real loss of 5 points on 1,147 pairs fails in more than 80 % without a margin; see
    docs/gate.md.

    Where judge, models seen, data, prompts or settings differ nothing is compared: a line for each, exit 2. Method,
    bank, rubrics and top-k may differ.

    \b
    Example:  svr gate runs/new --baseline runs/main --margin 1 --format github
    """
    from svr_async.evaluation.noise import read_noise
    from svr_async.evaluation.reporting.gate import gate_runs, raise_unless_passed
    from svr_async.evaluation.reporting.gate_text import FORMATS
    from svr_async.evaluation.run_folder import RunFolder

    measured = None if noise is None else read_noise(noise)
    runs = RunFolder.load(run), RunFolder.load(baseline)
    found = gate_runs(*runs, margin=margin / 100, allow=allow, noise=measured, seed=seed)
    click.echo(FORMATS["json" if as_json else form](found), nl=False)
    raise_unless_passed(found, strict=strict)
