"""`svr rank`: the best of several responses to one prompt, or to each prompt of a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from svr_async.commands.options import (
    HELP,
    GroupedCommand,
    few_limits,
    json_option,
    judge_option,
    scheduled,
    top_k_option,
    with_limits,
)
from svr_async.commands.screen import text_of
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.judges.limits import JudgeLimits
    from svr_async.serving.ranking import Ranking

T = TypeVar("T")

SHOWN_CHARS = 300
ALIKE = "nothing tells them apart: the order is that in which they were given"


@click.command(cls=GroupedCommand, context_settings=HELP)
@click.argument("responses", nargs=-1, required=True, metavar="FILE|RESPONSE...")
@click.option("--prompt", metavar="TEXT|@FILE", help="What was asked. Without it, FILE has prompts with responses.")
@click.option("--out", type=click.Path(path_type=Path), metavar="RANKED.jsonl", help="With FILE: a row a prompt.")
@click.option(
    "--pairs-out",
    type=click.Path(path_type=Path),
    metavar="PAIRS.jsonl",
    help="With FILE: write preference pairs, best against worst.",
)
@click.option(
    "--min-margin",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="N",
    help="Leave out pairs with a smaller difference of scores.",
)
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
@click.option(
    "--anchor", type=click.IntRange(min=1), metavar="N", help="With --schedule anchor: the RESPONSE, from 1, for all."
)
@top_k_option
@few_limits
@json_option
def rank(
    prompt: str | None,
    responses: tuple[str, ...],
    out: Path | None,
    pairs_out: Path | None,
    min_margin: float,
    as_json: bool,
    **flags: Any,
) -> None:
    """Rank RESPONSES to a prompt, the best first: each a text, or @FILE. Or, without --prompt, those in a FILE.

    With a bank by its rubrics; without one a model is asked directly, and rules decides by its general checks. Rows of
    FILE have a prompt and a list of responses; the same command again goes on where it was ended.

    \b
    Examples:
      svr rank --judge rules --prompt "Say it in one sentence: what is bread?" "Baked dough." "It is food. We bake it."
      svr rank samples.jsonl --judge gpt-oss-120b --bank banks/mine --schedule circle --out ranked.jsonl
    """
    if flags["anchor"] is not None:
        if responses and flags["anchor"] > len(responses):
            raise UsageError(
                f"--anchor {flags['anchor']}: there are {len(responses)} responses", hint="places count from 1"
            )
        flags["anchor"] -= 1
    _refuse_without_bank(flags)
    if prompt is not None and out is None:
        _rank_one(prompt, responses, as_json=as_json, **flags)
    elif prompt is None and out is not None and len(responses) == 1:
        _rank_file(Path(responses[0]), out, as_json=as_json, pairs_out=pairs_out, min_margin=min_margin, **flags)
    else:
        raise UsageError(
            "--prompt goes with responses, --out with a FILE of prompts and their responses",
            hint="svr rank --prompt TEXT RESPONSE RESPONSE, or svr rank FILE --out RANKED.jsonl",
        )


def _rank_one(prompt: str, responses: tuple[str, ...], *, as_json: bool, **flags: Any) -> None:
    from svr_async.commands.screen import tell
    from svr_async.serving.ranking import arank

    asked = text_of("--prompt", prompt)
    texts = [text_of("RESPONSE", text) for text in responses]
    found = _asked(lambda **how: arank(asked, texts, **how), **with_limits(flags))
    tell(found.to_json(), lambda: _show(found, texts), as_json=as_json)


def _rank_file(
    path: Path, out: Path, *, as_json: bool, pairs_out: Path | None, min_margin: float, **flags: Any
) -> None:
    from svr_async.adapters.groups import read_groups
    from svr_async.adapters.pair_files import check_output, write_rows
    from svr_async.adapters.tables import read_rows
    from svr_async.commands.screen import tell
    from svr_async.serving.best_of_n import preference_rows, rank_groups, summary, summary_sheet, write_ranked

    check_output(out, [path])
    if pairs_out is not None:
        check_output(pairs_out, [path, out])
    groups = read_groups(path)
    found = _asked(lambda **how: rank_groups(groups, **how), **with_limits(flags))
    write_ranked(out, found)
    told = summary(found)
    if pairs_out is not None:
        made, counts = preference_rows(read_rows(out), min_margin=min_margin)
        write_rows(pairs_out, made)
        told["pairs"] = counts
    tell(told, summary_sheet(told), as_json=as_json)


def _refuse_without_bank(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for a flag that is about the rubrics of a bank where none is named."""
    for flag, given in (
        ("--method pointwise", flags["method"] == "pointwise"),
        ("--top-k", flags["top_k"] is not None),
    ):
        if given and flags["bank"] is None:
            raise UsageError(f"{flag} needs --bank", hint="a folder of `svr train`, or hf:user/name")


def _asked(
    ask: Callable[..., Awaitable[T]],
    *,
    judge: str,
    base_url: str,
    bank: str | None,
    limits: JudgeLimits,
    **how: Any,
) -> T:
    """Ask within an engine of its own; SvrError for what makes that impossible."""
    from svr_async.engine.concurrency import run_whole
    from svr_async.judges.open_judge import JudgeSpec
    from svr_async.judges.profiles import naming_keys
    from svr_async.scoring.bank import RubricBank
    from svr_async.serving.engine import Engine

    held = None if bank is None else RubricBank.load(bank)

    async def once() -> T:
        async with Engine.limited(judge, limits, base_url=base_url) as engine:
            return await ask(bank=held, engine=engine, **how)

    keys = JudgeSpec.parse(judge, base_url=base_url).key_variables
    with naming_keys(keys):
        return run_whole(once())


def _show(found: Ranking, texts: list[str]) -> None:
    from svr_async.commands.screen import plain_table, safe_console
    from svr_async.core.safetext import one_line
    from svr_async.evaluation.wording import signed

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
