"""`svr rank`: the best of several responses to one prompt, or to each prompt of a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, option, with_limits
from svr_async.commands.screen import show, tell, text_of
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.serving.ranking import Ranking

T = TypeVar("T")
SHOWN_CHARS = 300
NOT_ASKED = ("judge", "base_url", "bank", "limits", "prompt", "responses", "out", "pairs_out", "min_margin", "as_json")


@click.command(cls=GroupedCommand, context_settings=opt.HELP)
@click.argument("responses", nargs=-1, required=True, metavar="FILE|RESPONSE...")
@option("--prompt TEXT|@FILE", "The prompt. Without it, FILE has prompts with responses.")
@option("--out RANKED.jsonl", "With FILE: a row a prompt.", type=opt.PATH)
@option("--pairs-out PAIRS.jsonl", "With FILE: preference pairs, best against worst.", type=opt.PATH)
@option("--min-margin N", "Leave out pairs closer in score. Default: 0.", type=opt.AMOUNT, default=0.0)
@opt.judge
@opt.bank
@option(
    "--method",
    "Compare pairs, or with a bank score each alone; auto compares up to six.",
    type=click.Choice(["auto", "pairwise", "pointwise"]),
    default="auto",
)
@option(
    "--schedule",
    "Which pairs are compared: circle costs N calls.",
    type=click.Choice(["all", "circle"]),
    default="all",
)
@opt.top_k
@opt.few_limits
@opt.json
def rank(**flags: Any) -> None:
    """Rank RESPONSES to a prompt, best first: each a text or @FILE. Without --prompt, rank those in a FILE.

    With a bank by its rubrics; without one a model is asked directly, and rules decides by its general checks. Rows of
    FILE have a prompt and a list of responses; the same command again continues after a stop.

    \b
    Examples:
      svr rank --judge rules --prompt "Name a prime." "7 is prime." "9." "Eleven."
      svr rank samples.jsonl --judge gpt-oss-120b --bank mine --out ranked.jsonl
    """
    pointwise = flags["method"] == "pointwise"
    if flags["bank"] is None and (pointwise or flags["top_k"] is not None):
        flag = "--method pointwise" if pointwise else "--top-k"
        raise UsageError(f"{flag} needs --bank", hint="a folder of `svr train`, or hf:user/name")
    if flags["prompt"] is not None and flags["out"] is None:
        _rank_one(with_limits(flags))
    elif flags["prompt"] is None and flags["out"] is not None and len(flags["responses"]) == 1:
        _rank_file(Path(flags["responses"][0]), with_limits(flags))
    else:
        raise UsageError(
            "--prompt goes with responses, --out with a FILE of prompts and their responses",
            hint="svr rank --prompt TEXT RESPONSE RESPONSE, or svr rank FILE --out RANKED.jsonl",
        )


def _rank_one(flags: dict[str, Any]) -> None:
    from svr_async.serving.ranking import arank

    prompt = text_of("--prompt", flags["prompt"])
    texts = [text_of("RESPONSE", text) for text in flags["responses"]]
    found = _ask(flags, lambda **how: arank(prompt, texts, **how))
    tell(found.to_json(), lambda: _show(found, texts), as_json=flags["as_json"])


def _rank_file(path: Path, flags: dict[str, Any]) -> None:
    from svr_async.adapters.pair_files import check_output, write_rows
    from svr_async.commands.rank_file import read_groups
    from svr_async.serving.best_of_n import preference_rows, rank_groups, summary, summary_sheet

    out, pairs_out = flags["out"], flags["pairs_out"]
    for place, sources in ((out, [path]), (pairs_out, [path, out])):
        if place is not None:
            check_output(place, sources)
    groups = read_groups(path)
    found = _ask(flags, lambda **how: rank_groups(groups, **how))
    write_rows(out, (one.row() for one in found))
    facts = summary(found)
    if pairs_out is not None:
        made, facts["pairs"] = preference_rows(found, min_margin=flags["min_margin"])
        write_rows(pairs_out, made)
    tell(facts, summary_sheet(facts), as_json=flags["as_json"])


def _ask(flags: dict[str, Any], ask: Callable[..., Awaitable[T]]) -> T:
    """Rank with an engine for this command."""
    from svr_async.engine.concurrency import run_whole
    from svr_async.judges.open_judge import JudgeSpec
    from svr_async.judges.profiles import naming_keys
    from svr_async.scoring.bank import RubricBank
    from svr_async.serving.engine import Engine

    bank = None if flags["bank"] is None else RubricBank.load(flags["bank"])
    judge, base_url = flags["judge"], flags["base_url"]
    how = {name: value for name, value in flags.items() if name not in NOT_ASKED}

    async def once() -> T:
        async with Engine.limited(judge, flags["limits"], base_url=base_url) as engine:
            return await ask(bank=bank, engine=engine, **how)

    with naming_keys(JudgeSpec.parse(judge, base_url=base_url).key_variables):
        return run_whole(once())


def _show(found: Ranking, texts: list[str]) -> None:
    from svr_async.core.safetext import one_line
    from svr_async.core.table import Line, Table
    from svr_async.evaluation.wording import signed

    rows = [
        (str(place + 1), "no verdict" if score is None else signed(score), one_line(texts[place], SHOWN_CHARS))
        for place in found.order
        for score in (found.scores[place],)
    ]
    undecided = found.undecided and len(set(texts)) > 1
    doubts = [Line("no difference found: the responses stay in the given order", loud=True)] if undecided else []
    table = Table(("given as", "score", "response"), rows, texts=1)
    show([Line(f"{found.method} · {found.judge}"), *doubts, table])
