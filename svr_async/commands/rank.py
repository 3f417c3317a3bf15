"""`svr rank`: the best of several responses to one prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.groups import GroupedCommand
from svr_async.commands.options import HELP, bank_top_k_option, common, judge_option, limited, scheduled, with_limits
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.judges.limits import JudgeLimits
    from svr_async.serving.ranking import Ranking

SHOWN_CHARS = 300
ALIKE = "nothing tells them apart: the order is that in which they were given"


@click.command(cls=GroupedCommand, context_settings=HELP)
@click.argument("responses", nargs=-1, required=True, metavar="RESPONSE...")
@click.option("--prompt", required=True, metavar="TEXT|@FILE", help="What was asked.")
@judge_option
@click.option("--bank", metavar="BANK", help="Judge with this bank: a folder, or hf:user/name.")
@click.option(
    "--method",
    type=click.Choice(["auto", "pairwise", "pointwise"]),
    default="auto",
    show_default=True,
    help="Every two side by side, or with a bank each alone; auto is pairwise up to six.",
)
@scheduled("all")
@click.option("--anchor", type=click.IntRange(min=0), help="With --schedule anchor: the RESPONSE, from 0, for all.")
@bank_top_k_option
@limited
@common
def rank(prompt: str, responses: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """Rank RESPONSES to a prompt, the best first: each a text, or @FILE.

    With a bank by its rubrics; without one a model is asked directly, and rules decides by its general checks.

    \b
    Example:
      svr rank --judge rules --prompt "Say it in one sentence: what is bread?" "Baked dough." "It is food. We bake it."
    """
    from svr_async.commands.given_text import text_of
    from svr_async.commands.screen import tell

    _refuse_without_bank(flags)
    asked = text_of("--prompt", prompt)
    texts = [text_of("RESPONSE", text) for text in responses]
    found = _ranked(asked, texts, **with_limits(flags))
    tell(as_values(found), lambda: _show(found, texts), as_json=as_json)


def _refuse_without_bank(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for a flag that is about the rubrics of a bank where none is named."""
    for flag, given in (
        ("--method pointwise", flags["method"] == "pointwise"),
        ("--top-k", flags["top_k"] is not None),
    ):
        if given and flags["bank"] is None:
            raise UsageError(f"{flag} needs --bank", hint="a folder of `svr train`, or hf:user/name")


def _ranked(
    prompt: str,
    texts: list[str],
    *,
    judge: str,
    base_url: str,
    bank: str | None,
    limits: JudgeLimits,
    **how: Any,
) -> Ranking:
    """Rank within an engine of its own; SvrError for what makes that impossible."""
    from svr_async.engine.loops import run_whole
    from svr_async.judges.keys import naming_keys
    from svr_async.judges.spec import JudgeSpec
    from svr_async.scoring.bank import RubricBank
    from svr_async.serving.engine import Engine
    from svr_async.serving.ranking import rank as rank_texts

    held = None if bank is None else RubricBank.load(bank)

    async def once() -> Ranking:
        async with Engine.limited(judge, limits, base_url=base_url) as engine:
            return await rank_texts(prompt, texts, bank=held, engine=engine, **how)

    keys = JudgeSpec.parse(judge, base_url=base_url).key_variables
    with naming_keys(keys):
        return run_whole(once())


def as_values(found: Ranking) -> dict[str, Any]:
    """Return a ranking as plain JSON values; places count from 0, margins are by `i-j`."""
    margins = {f"{i}-{j}": margin for (i, j), margin in found.margins.items()}
    told = {"order": found.order, "scores": found.scores, "best": found.best, "undecided": found.undecided}
    return told | {"margins": margins, "method": found.method, "questions": found.questions, "judge": found.judge}


def _show(found: Ranking, texts: list[str]) -> None:
    from svr_async.commands.screen import plain_table, safe_console
    from svr_async.evaluation.wording import signed
    from svr_async.vocabulary.safetext import one_line

    console = safe_console()
    console.print(one_line(f"{found.method} · {found.judge}", 400), style="dim")
    if found.undecided and len(set(texts)) > 1:
        console.print(ALIKE, style="yellow")
    rows = [
        (str(place + 1), "no verdict" if score is None else signed(score), one_line(texts[place], SHOWN_CHARS))
        for place in found.order
        for score in (found.scores[place],)
    ]
    console.print(plain_table(("given as", "score", "response"), rows, texts=1))
