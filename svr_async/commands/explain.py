"""`svr explain`: one decision of a run, or of a pair judged now, with its calls."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click
import orjson

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, flag, given_flags, option, with_limits
from svr_async.commands.screen import show, tell, text_of
from svr_async.core.table import Line, Part, Table
from svr_async.errors import CoverageError, UsageError

if TYPE_CHECKING:
    from svr_async.reports.explain import Explanation
    from svr_async.scoring.bank import RubricBank

SHOWN_CHARS = 700
CALL_CHARS = 6_000  # of a text of a call
PAIR_TEXTS = ("prompt", "a", "b")
RUN_ONLY = ("data", "calls")


@click.command(cls=GroupedCommand)
@click.argument("run", metavar="[RUN]", required=False, type=opt.PATH)
@click.argument("item", metavar="[ITEM]", required=False)
@flag("--calls", "Show the requests and replies of ITEM too.")
@opt.moved_data
@option("--prompt TEXT|@FILE", "Judge a pair now: the prompt.")
@option("--a TEXT|@FILE", "Judge a pair now: one response.")
@option("--b TEXT|@FILE", "Judge a pair now: the other response.")
@opt.judge
@opt.bank
@opt.base_url
@opt.cache
@opt.json
def explain(run: Path | None, item: str | None, as_json: bool, **flags: Any) -> None:
    """Explain one decision: each rubric's verdicts and signed contribution to the margin.

    With RUN and ITEM, a decision of a run; without ITEM, the ids of the run's most confident mistakes. With --prompt,
    --a and --b, a pair is judged now with the rubrics of --bank; without a bank a model is asked directly.

    \b
    Examples:
      svr explain --judge rules --prompt "Name a prime." --a "7 is prime." --b 9
      svr explain runs/first
      svr explain runs/first rubric_eval_17 --calls
    """
    given = [name for name in flags if name in given_flags(click.get_current_context())]
    if run is None:
        _explain_now(flags, given, as_json)
        return
    mixed = [name for name in given if name not in (*RUN_ONLY, "cache")]
    if mixed:
        raise UsageError(f"RUN and {_flag(mixed[0])} exclude each other", hint="explain a run, or a pair with --bank")
    if item is None:
        _explain_mistakes(run, as_json)
    elif flags["calls"]:
        _explain_calls(run, item, flags["cache"] if "cache" in given else None, as_json)
    else:
        _explain_item(run, item, flags["data"], as_json)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _explain_now(flags: dict[str, Any], given: list[str], as_json: bool) -> None:
    """Judge the pair of the flags; CoverageError if the judge gave no verdict."""
    from svr_async.engine.concurrency import run_whole
    from svr_async.judges.open_judge import JudgeSpec
    from svr_async.judges.profiles import naming_keys
    from svr_async.scoring.bank import RubricBank

    missing = [_flag(name) for name in PAIR_TEXTS if name not in given]
    if len(missing) == len(PAIR_TEXTS) and "bank" not in given:
        raise UsageError("svr explain needs a RUN, or --prompt, --a and --b")
    if missing:
        raise UsageError(f"a pair needs {' and '.join(missing)} too", hint="a text, or @FILE")
    if extra := [_flag(name) for name in given if name in RUN_ONLY]:
        raise UsageError(f"{extra[0]} needs a RUN", hint="leave it out to judge a pair now")
    texts = {name: text_of(_flag(name), flags[name]) for name in PAIR_TEXTS}
    bank = None if flags["bank"] is None else RubricBank.load(flags["bank"])
    with naming_keys(JudgeSpec.parse(flags["judge"], base_url=flags["base_url"]).key_variables):
        found = run_whole(_judge_now(flags, texts, bank))
    tell(found.to_json, lambda: _show_explanation(found), as_json=as_json)
    if found.item.margin is None:
        raise CoverageError(f"no verdict: {found.item.outcome}", hint=found.item.detail)


async def _judge_now(flags: dict[str, Any], texts: dict[str, str], bank: RubricBank | None) -> Explanation:
    from svr_async.core.pair import PreferencePair
    from svr_async.evaluation.items import item_from
    from svr_async.evaluation.plan import PairDecision, Rows
    from svr_async.evaluation.run_folder import Texts
    from svr_async.reports.explain import Explanation
    from svr_async.serving.engine import Engine
    from svr_async.serving.pairs import decide_pair, method_of, pair_doubts
    from svr_async.serving.texts import as_prompt

    prompt, a, b = as_prompt(texts["prompt"]), texts["a"], texts["b"]
    pair = PreferencePair(id="pair", prompt=prompt, chosen=a, rejected=b, has_preference=False)
    limits = with_limits(flags)["limits"]
    async with Engine.limited(flags["judge"], limits, base_url=flags["base_url"]) as engine:
        method = method_of(bank, engine, top_k=None)
        decision = await decide_pair(method, engine.judge, prompt, a, b, order="hash")
        doubts = pair_doubts(decision, prompt, bank, method, engine)
        named = "general checks" if flags["judge"] == "rules" else "asked directly, no bank"
        title = f"{named if bank is None else bank.name or flags['bank']} · {engine.label}"
    order, margin = decision.shown.value, decision.margin
    margins = {} if margin is None else {order: margin}
    rows = (Rows(judge="", decision=decision),)
    item = item_from(pair, PairDecision(decision=decision, judge="", order=order, margins=margins, rows=rows, votes=()))
    shown = Texts(prompt=texts["prompt"], response_a=a, response_b=b)
    return Explanation(item=item, texts=shown, caption=title, of_run=False, doubts=doubts)


def _explain_mistakes(run: Path, as_json: bool) -> None:
    """Print the mistakes, the largest margin first."""
    from svr_async.evaluation.items import confident_mistakes
    from svr_async.evaluation.run_folder import Run
    from svr_async.evaluation.wording import signed

    loaded = Run.load(run)
    mistakes = confident_mistakes(loaded.items)
    rows = [(one.id, signed(one.margin), one.predicted or "", one.gold or "", one.domain) for one in mistakes]
    parts: list[Part] = [Line(loaded.summary.caption), Line("no pair was decided for the wrong response")]
    if rows:
        parts[1:] = [Table(("item", "margin", "chosen", "right", "domain"), rows)]
        parts.append(Line(f"svr explain {run} {quote(mistakes[0].id)}", label="next"))
    tell(lambda: [asdict(found) for found in mistakes], parts, as_json=as_json)


def _explain_item(run: Path, item: str, data: Path | None, as_json: bool) -> None:
    """Print the explanation, and how to see its calls."""
    from svr_async.evaluation.run_folder import Run
    from svr_async.reports.explain import explain as explain_one

    found = explain_one(Run.load(run), item, data=data)
    tell(found.to_json, lambda: _show_explanation(found), as_json=as_json)
    if as_json or not found.item.requests:
        return
    if not found.item.reasons and not any(row.chances for row in found.rows):
        click.echo("the judge gave no reasons")
    show([Line(f"svr explain {quote(str(run))} {quote(found.item.id)} --calls shows requests and replies")])


def _explain_calls(run: Path, item: str, cache: Path | str | None, as_json: bool) -> None:
    from svr_async.core.safetext import json_for_terminal, one_line
    from svr_async.evaluation.details import calls_of_item
    from svr_async.evaluation.run_folder import Run
    from svr_async.reports.explain import call_facts, call_texts

    calls, secrets, place = calls_of_item(Run.load(run), item, cache)
    if not calls:
        raise UsageError(f"no call was made for {item}", hint="checks, recordings and equal responses need no call")
    if as_json:
        values = orjson.dumps([one.to_json() for one in calls], option=orjson.OPT_INDENT_2)
        click.echo(json_for_terminal(secrets.mask_bytes(values)))
        return
    for one in calls:
        for name, value in call_facts(one, place):
            click.secho(f"{name:<9} ", nl=False, dim=True)
            click.echo(one_line(secrets.mask(value), 400))
        for name, text in call_texts(one):
            _show_text(name, secrets.mask(text), CALL_CHARS, prefix="  ")  # so that no text looks like a heading
        click.echo()


def _show_explanation(found: Explanation) -> None:
    """Print one decision: its outcome, its rubrics, and the texts, shortened."""
    from svr_async.reports.explain import explanation_parts, explanation_texts

    show(explanation_parts(found))
    for name, text in explanation_texts(found):
        _show_text(name, text)
    if found.texts is None:
        click.secho("the run folder keeps no texts of this pair; --data PATH shows them", dim=True)


def _show_text(name: str, text: str, most: int = SHOWN_CHARS, *, prefix: str = "") -> None:
    """Print a text under its name, shortened."""
    from svr_async.core.safetext import capped, for_terminal

    shown, more = capped(for_terminal(text), most)
    click.secho(f"\n{name}", bold=True)
    click.echo(indent(shown, prefix, lambda _: True))
    if more:
        click.secho(f"… {more:,} more characters: --json shows all", dim=True)
