"""`svr explain`: the signed contributions behind one decision, of a run or now, or a run's surest mistakes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.groups import GroupedCommand
from svr_async.commands.options import PATH, bank_top_k_option, common, given_flags, limited, with_limits
from svr_async.commands.screen import plain_table, print_json, safe_console, tell
from svr_async.errors import CoverageError, UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from svr_async.evaluation.explain import Explanation
    from svr_async.evaluation.items import RubricRow
    from svr_async.evaluation.run_folder import Run

BAR_CELLS = 12  # of each half of a bar
SHOWN_CHARS = 700
NO_REASONS = "no reasons are kept: the judge gave none, or the run is older than they are; then svr eval writes them"
FEW_ROWS = 16  # of a table, up to which rubrics that count nothing are listed too


PAIR_TEXTS = ("prompt", "a", "b")
RUN_ONLY = ("data", "benchmark")
BANK_ONLY = ("top_k", "rephrase")


@click.command(cls=GroupedCommand)
@click.argument("run", metavar="[RUN]", required=False, type=PATH)
@click.argument("item", metavar="[ITEM]", required=False)
@click.option("--data", type=PATH, metavar="PATH", help="The run's data, where it has moved.")
@click.option("--benchmark", metavar="NAME", help="The format of --data; the run's own benchmark unless given.")
@click.option("--bank", metavar="BANK", help="Judge a pair now with this bank: a folder, or hf:user/name.")
@click.option("--prompt", metavar="TEXT|@FILE", help="Judge a pair now: what was asked.")
@click.option("--a", metavar="TEXT|@FILE", help="Judge a pair now: one response.")
@click.option("--b", metavar="TEXT|@FILE", help="Judge a pair now: the other response.")
@click.option("--judge", default="", metavar="J", help="Judge a pair now: who judges, rules for offline checks.")
@limited
@bank_top_k_option
@click.option("--rephrase", is_flag=True, help="With --bank: fit the rubrics to the prompt first.")
@click.option(
    "--order",
    type=click.Choice(["hash", "ab", "ba"]),
    default="hash",
    show_default=True,
    help="Judge a pair now: which response is shown first.",
)
@common
def explain(run: Path | None, item: str | None, as_json: bool, **flags: Any) -> None:
    """Show why a pair was decided as it was: each rubric's verdicts and signed contribution to the margin.

    Of a RUN, by the id of an ITEM; without ITEM, the ids of the run's most confident mistakes. With --prompt, --a and
    --b instead of a RUN, a pair that is given here is judged now by --judge, with the rubrics of --bank; without a bank
    a model is asked directly, and rules decides by its general checks. @FILE reads a text from a file.

    \b
    Examples:
      svr explain runs/rubricbench-svr-gpt-oss-120b-1c9b7e20
      svr explain runs/rubricbench-svr-gpt-oss-120b-1c9b7e20 rubric_eval_17
      svr explain runs/first rubric_eval_17 --data rubricbench.parquet
      svr explain --judge rules --prompt "Name a prime." --a "7 is prime." --b "9."
      svr explain --bank bank/ --prompt "Name a prime." --a "7 is prime." --b "9." --judge gpt-oss-120b
    """
    given = [name for name in flags if name in given_flags(click.get_current_context())]
    if run is None:
        _explain_now(flags, given, as_json)
        return
    mixed = [name for name in given if name not in RUN_ONLY]
    if mixed:
        raise UsageError(f"RUN and {_flag(mixed[0])} exclude each other", hint="explain a run, or a pair with --bank")
    _explain_run(run, item, flags["data"], flags["benchmark"], as_json)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _explain_now(flags: dict[str, Any], given: list[str], as_json: bool) -> None:
    """Judge the pair of the flags; CoverageError where the judge gave no verdict."""
    from svr_async.commands.explain.pair import PairFlags, explain_pair

    _check_pair(given)
    settings = {name: value for name, value in flags.items() if name not in RUN_ONLY}
    found = explain_pair(PairFlags(**with_limits(settings)))
    tell(found.to_json, lambda: show_explanation(found), as_json=as_json)
    if found.item.margin is None:
        raise CoverageError(f"there is no verdict: {found.item.outcome}", hint=found.item.detail)


def _check_pair(given: list[str]) -> None:
    missing = [_flag(name) for name in PAIR_TEXTS if name not in given]
    if len(missing) == len(PAIR_TEXTS) and "bank" not in given:
        wrong = f"{_flag(given[0])} needs more: " if given else ""
        raise UsageError(f"{wrong}svr explain takes a RUN, or --prompt, --a and --b")
    if missing:
        raise UsageError(f"a pair needs {' and '.join(missing)} too", hint="a text, or @FILE")
    if "bank" not in given and (more := [_flag(name) for name in given if name in BANK_ONLY]):
        raise UsageError(
            f"{more[0]} needs --bank", hint="without one there are no rubrics to choose; --bank FOLDER of `svr train`"
        )
    if extra := [_flag(name) for name in given if name in RUN_ONLY]:
        raise UsageError(f"{extra[0]} goes with a RUN", hint="leave it out with --bank")


def _explain_run(run: Path, item: str | None, data: Path | None, benchmark: str | None, as_json: bool) -> None:
    from svr_async.evaluation.items import confident_mistakes
    from svr_async.evaluation.run_folder import RunFolder, with_reasons
    from svr_async.evaluation.running.explaining import explain

    loaded = RunFolder.load(run)
    if item is None:
        mistakes = confident_mistakes(loaded.items)
        if as_json:
            mistakes = with_reasons(loaded.path, mistakes)
            print_json([asdict(found) for found in mistakes])
        else:
            show_mistakes(loaded)
        return
    explanation = explain(loaded, item, data=data, benchmark=benchmark)
    tell(explanation.to_json, lambda: show_explanation(explanation), as_json=as_json)
    if not as_json:
        _show_where(explanation, run)


def _show_where(found: Explanation, run: Path) -> None:
    """Say how to see what was asked and replied, and why there may be no reasons; nothing where nothing was asked."""
    from svr_async.core.safetext import one_line

    if not found.item.requests:
        return
    if not found.item.reasons and not any(row.chances for row in found.rows):
        click.echo(NO_REASONS)
    names = quote(str(run)), quote(one_line(found.item.id, 200))
    click.echo("svr call show --run {} --item {} shows what was asked and replied".format(*names))


def show_mistakes(run: Run) -> None:
    """Print the ids of the most confident mistakes, the surest first."""
    from rich.text import Text

    from svr_async.core.safetext import one_line
    from svr_async.evaluation.items import confident_mistakes
    from svr_async.evaluation.labels import caption
    from svr_async.evaluation.wording import signed

    console = safe_console()
    console.print(Text(one_line(caption(run), 400), style="bold"))
    mistakes = confident_mistakes(run.items)
    if not mistakes:
        console.print("no pair was decided for the wrong response")
        return
    rows = [
        (found.id, signed(found.margin), found.predicted or "", found.gold or "", found.domain) for found in mistakes
    ]
    console.print(plain_table(("item", "margin", "chosen", "right", "domain"), rows))
    console.print(Text(f"svr explain {run.path} ITEM shows one of them", style="dim"))


def show_explanation(found: Explanation) -> None:
    """Print one decision: its outcome, rubrics with bars towards A (left) or B (right), and the texts, shortened."""
    from rich.text import Text

    from svr_async.core.safetext import one_line
    from svr_async.evaluation.explain import (
        counts_note,
        decision_in_words,
        in_words,
        verdict_reasons,
        votes_in_words,
        why,
    )

    console = safe_console()
    console.print(Text(one_line(found.caption, 400), style="dim"))
    which = [Text(one_line(found.item.id, 200), style="bold")] if found.of_run else []
    console.print(*which, Text(decision_in_words(found), style="bold"))
    for place, doubt in enumerate(found.doubts):
        console.print(Text(f"{'and' if place else 'but'} {one_line(doubt, 400)}", style="yellow"))
    if found.rows:
        _show_rubrics(console, found)
        console.print(Text(counts_note(found), style="dim"))
        console.print(Text(one_line(in_words(found), 400)))
    elif found.item.margin is not None and not found.doubts and "identical" not in found.item.flags:
        console.print("the judge gave its verdict directly, without rubrics")
    for reason in verdict_reasons(found.item):
        _show_text(console, why(reason), reason.text)
    for said in votes_in_words(found.item):
        console.print(Text(one_line(said, 400), style="dim"))
    for name, value in (("detail", found.item.detail), ("flags", ", ".join(map(str, found.item.flags)))):
        if value:
            console.print(Text(f"{name}: ", style="dim"), Text(one_line(value, 400)))
    _show_texts(console, found)


def _show_rubrics(console: Console, found: Explanation) -> None:
    from rich.table import Table
    from rich.text import Text

    from svr_async.core.safetext import one_line
    from svr_async.evaluation.explain import counts_at_all, marks_of, reason_of, verdict_of, why
    from svr_async.evaluation.wording import signed

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("rubric", ratio=1)
    for head in ("A", "B"):
        table.add_column(head)
    table.add_column("counts", justify="right")  # alpha times the weight of the bank
    table.add_column(f"{'← A':<{BAR_CELLS}} {'B →':>{BAR_CELLS}}", no_wrap=True, min_width=2 * BAR_CELLS + 1)
    table.add_column("adds", justify="right", no_wrap=True)
    shown = found.rows if len(found.rows) <= FEW_ROWS else [row for row in found.rows if counts_at_all(row)]
    for row in shown:
        text = row.text if row.rephrased in {None, row.text} else f"{row.rephrased} (from: {row.text})"
        shown_as = one_line(text, 400) + "".join(f" ({mark})" for mark in marks_of(found, row))
        reason = reason_of(found.item, row)
        told = "" if reason is None else f"\n{why(reason)}: {one_line(reason.text, 400)}"
        table.add_row(
            Text.assemble((shown_as, "" if row.delta else "dim"), (told, "dim")),
            verdict_of(row, "A"),
            verdict_of(row, "B"),
            f"{row.importance:.2f}",
            _bar(row, found.largest),
            signed(row.contribution),
        )
    console.print(table)
    if less := len(found.rows) - len(shown):
        console.print(Text(f"and {less} that count less than 0.005: --json lists them", style="dim"))


def _bar(row: RubricRow, largest: float) -> Text:
    """Draw a contribution as a bar: to the left of the middle for A, to the right for B."""
    from rich.text import Text

    from svr_async.evaluation.explain import favoured

    cells = max(1, round(BAR_CELLS * abs(row.contribution) / largest)) if row.contribution and largest else 0
    left, right = (cells, 0) if favoured(row.contribution) == "A" else (0, cells)
    return Text.assemble(
        ("━" * left).rjust(BAR_CELLS),
        ("│", "dim"),
        ("━" * right).ljust(BAR_CELLS),
        style="magenta" if left else "yellow",
    )


def _show_texts(console: Console, found: Explanation) -> None:
    from rich.text import Text

    from svr_async.evaluation.explain import tag_of

    if found.texts is None:
        console.print(Text("the run folder keeps no texts of this pair; --data PATH shows them", style="dim"))
        return
    for name, text in (
        ("prompt", found.texts.prompt),
        (f"response A{tag_of(found, 'A')}", found.texts.response_a),
        (f"response B{tag_of(found, 'B')}", found.texts.response_b),
    ):
        _show_text(console, name, text)


def _show_text(console: Console, name: str, text: str) -> None:
    from rich.text import Text

    from svr_async.core.safetext import capped, for_terminal

    shown, more = capped(for_terminal(text), SHOWN_CHARS)
    console.print()
    console.print(Text(name, style="bold"))
    console.print(Text(shown))
    if more:
        console.print(Text(f"… {more:,} more characters", style="dim"))
