"""`svr call`: one call of a judge, with request, reply, reasons, tokens, time and attempts."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click
import orjson

from svr_async.commands.options import PATH, cache_option, common, given_flags
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.evaluation.running.calls import Call, Found
    from svr_async.observability.redaction import Redactor

SHOWN_CHARS = 6_000  # of a text, in a terminal


@click.group()
def call() -> None:
    """Look at single calls of a judge.

    \b
    Example:  svr call show --run runs/first --item rubric_eval_17
    """


@call.command(short_help="Show request, reply, reasons, tokens, time, attempts.")
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--run", type=PATH, metavar="RUN", help="The run that made it: its request too.")
@click.option("--item", metavar="ITEM", help="With --run: the calls of this item; KEY may be left out.")
@click.option("--log", type=PATH, metavar="FILE", help="A log with its time and attempts.")
@cache_option
@common
def show(
    key: str | None, run: Path | None, item: str | None, log: Path | None, cache: Path | str, as_json: bool
) -> None:
    """Show what was asked and replied, why, and at what price. KEY is a cache key, or the beginning of one.

    The keys of an item stand in items.jsonl as `requests`. The cache keeps replies; with --run the request is made out
    again from the run's data and settings, without a call.

    \b
    Examples:
      svr call show 3f9c02ab41
      svr call show 3f9c02ab41 --run runs/first
      svr call show --run runs/first --item rubric_eval_17 --log calls.jsonl
    """
    from svr_async.core.safetext import json_for_terminal
    from svr_async.observability.jsonlog import calls_in_log
    from svr_async.observability.redaction import Redactor

    found = _find(key, run, item, cache if "cache" in given_flags(click.get_current_context()) else None, cache)
    redactor = Redactor(found.secrets)
    logged = [None if log is None else calls_in_log(log, one.key) for one in found.calls]
    if as_json:
        told = [_as_json(one, lines) for one, lines in zip(found.calls, logged, strict=True)]
        click.echo(json_for_terminal(redactor.line(orjson.dumps(told, option=orjson.OPT_INDENT_2))))
        return
    for one, lines in zip(found.calls, logged, strict=True):
        _show(one, lines, found.cache, redactor)


def _find(key: str | None, run: Path | None, item: str | None, given: Path | str | None, cache: Path | str) -> Found:
    from svr_async.evaluation.running.calls import call_in_cache, calls_of_run

    if run is None and item is not None:
        raise UsageError("--item needs the run that it is of", hint="--run RUN names it")
    if run is None:
        if key is None:
            raise UsageError("svr call show takes a KEY, or --run RUN and --item ITEM", hint="see --help")
        return call_in_cache(cache, key)
    if key is None and item is None:
        raise UsageError("--run needs a KEY or --item ITEM", hint="svr explain RUN ITEM shows which calls an item has")
    from svr_async.evaluation.run_folder import RunFolder

    found = calls_of_run(RunFolder.load(run), item_id=item, begins=key, cache=given)
    if not found.calls:
        raise UsageError(f"no call was made for {item}", hint="checks, recordings and equal responses need none")
    return found


def _as_json(one: Call, logged: tuple[dict[str, Any], ...] | None) -> dict[str, Any]:
    return one.to_json() | {"logged": None if logged is None else list(logged)}


def _show(one: Call, logged: tuple[dict[str, Any], ...] | None, cache: Path | str, redactor: Redactor) -> None:
    from svr_async.core.safetext import one_line
    from svr_async.evaluation.running.call_words import call_facts, call_texts

    for name, value in call_facts(one, logged, cache):
        click.secho(f"{name:<9} ", nl=False, dim=True)
        click.echo(one_line(redactor.text(value), 400))
    for name, text in call_texts(one):
        _show_text(name, redactor.text(text))
    click.echo()


def _show_text(name: str, text: str) -> None:
    from svr_async.core.safetext import capped, for_terminal

    shown, more = capped(for_terminal(text), SHOWN_CHARS)
    click.echo()
    click.secho(name, bold=True)
    click.echo(indent(shown, "  ", lambda _: True))  # so that no text can look like a heading of ours
    if more:
        click.secho(f"… {more:,} more characters: --json shows all", dim=True)
