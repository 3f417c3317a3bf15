"""`svr explain`: the signed contributions behind one decision, or which mistakes of a run were the surest."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from svr_async.commands.options import common

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from svr_async.evaluation.explain import Explanation
    from svr_async.evaluation.items import RubricRow
    from svr_async.evaluation.runfolder import Run, Texts

BAR_CELLS = 12  # of each half of a bar
SHOWN_CHARS = 700


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("item", metavar="[ITEM]", required=False)
@click.option("--data", type=click.Path(path_type=Path), metavar="PATH", help="Read the pair's texts from this data.")
@click.option("--benchmark", metavar="NAME", help="The format of --data; the run's own benchmark unless given.")
@common
def explain(
    run: Path,
    item: str | None,
    data: Path | None,
    benchmark: str | None,
    config: object,  # noqa: ARG001  (read eagerly, before the other flags)
    as_json: bool,
) -> None:
    """Show why a pair was decided as it was: each rubric's verdicts and signed contribution to the margin.

    Without ITEM: the ids of the run's most confident mistakes.

    \b
    Examples:
      svr explain runs/rubricbench-svr-gpt-oss-120b-1c9b7e20
      svr explain runs/rubricbench-svr-gpt-oss-120b-1c9b7e20 rubric_eval_17
      svr explain runs/first rubric_eval_17 --data rubricbench.parquet
    """
    from svr_async.evaluation.explain import confident_mistakes, explain_item  # noqa: PLC0415
    from svr_async.evaluation.runfolder import RunFolder  # noqa: PLC0415

    loaded = RunFolder.load(run)
    if item is None:
        mistakes = confident_mistakes(loaded.items)
        if as_json:
            click.echo(orjson.dumps([asdict(found) for found in mistakes], option=orjson.OPT_INDENT_2))
        else:
            show_mistakes(loaded)
        return
    explanation = explain_item(loaded, item)
    if explanation.texts is None or data is not None:
        explanation = explain_item(loaded, item, texts=texts_from_data(loaded, item, data, benchmark))
    if as_json:
        click.echo(orjson.dumps(explanation.to_json(), option=orjson.OPT_INDENT_2))
    else:
        show_explanation(explanation)


def texts_from_data(run: Run, item_id: str, data: Path | None, benchmark: str | None) -> Texts | None:
    """Return the texts of a pair from its data set: the shipped sample, or `data`; None where neither is meant."""
    from svr_async.adapters import get_adapter, load_sample  # noqa: PLC0415
    from svr_async.errors import UsageError  # noqa: PLC0415
    from svr_async.evaluation.labels import SAMPLE_SUFFIX  # noqa: PLC0415
    from svr_async.evaluation.runfolder import Texts  # noqa: PLC0415
    from svr_async.vocabulary.pair import prompt_text  # noqa: PLC0415

    if data is None and run.manifest.get("sample") is not True:
        return None
    name = benchmark or str(run.metrics["benchmark"]).removesuffix(SAMPLE_SUFFIX)
    pairs = load_sample().pairs if data is None else get_adapter(name).load(data, lenient=True).pairs
    pair = next((pair for pair in pairs if pair.id == item_id), None)
    if pair is not None:
        return Texts(prompt=prompt_text(pair.prompt), response_a=pair.response_a, response_b=pair.response_b)
    if data is None:
        return None
    raise UsageError(f"--data {data} has no pair {item_id!r}", hint="give the data that the run judged")


def show_mistakes(run: Run) -> None:
    """Print the ids of the most confident mistakes, the surest first."""
    from rich.text import Text  # noqa: PLC0415

    from svr_async.commands.screen import plain_table, safe_console  # noqa: PLC0415
    from svr_async.evaluation.explain import confident_mistakes  # noqa: PLC0415
    from svr_async.evaluation.labels import caption  # noqa: PLC0415
    from svr_async.evaluation.safetext import one_line  # noqa: PLC0415
    from svr_async.evaluation.wording import signed  # noqa: PLC0415

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
    from rich.text import Text  # noqa: PLC0415

    from svr_async.commands.screen import safe_console  # noqa: PLC0415
    from svr_async.evaluation.safetext import one_line  # noqa: PLC0415

    console = safe_console()
    console.print(Text(one_line(found.caption, 400), style="dim"))
    console.print(Text(one_line(found.item.id, 200), style="bold"), Text(_decision(found), style="bold"))
    if found.rows:
        _show_rubrics(console, found)
    elif found.item.margin is not None:
        console.print("the judge gave its verdict directly, without rubrics")
    for name, value in (("detail", found.item.detail), ("flags", ", ".join(map(str, found.item.flags)))):
        if value:
            console.print(Text(f"{name}: ", style="dim"), Text(one_line(value, 400)))
    _show_texts(console, found)


def _decision(found: Explanation) -> str:
    from svr_async.evaluation.wording import signed  # noqa: PLC0415

    item = found.item
    if item.margin is None:
        return f"{item.outcome}: no verdict"
    judged = {True: "right", False: "wrong", None: "no right answer"}[item.correct]
    chosen = f"chose {item.predicted}" if item.predicted else "a tie"
    return f"{chosen} ({judged}), margin {signed(item.margin)}"


def _show_rubrics(console: Console, found: Explanation) -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from svr_async.evaluation.safetext import one_line  # noqa: PLC0415
    from svr_async.evaluation.wording import UNKNOWN, signed  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("rubric", ratio=1)
    for head in ("A", "B"):
        table.add_column(head)
    table.add_column("weight", justify="right")
    table.add_column(f"{'← A':<{BAR_CELLS}} {'B →':>{BAR_CELLS}}", no_wrap=True, min_width=2 * BAR_CELLS + 1)
    table.add_column("", justify="right", no_wrap=True)
    for row in found.rows:
        table.add_row(
            Text(one_line(row.text, 300) + (" (filler)" if row.filler else ""), style="" if row.delta else "dim"),
            row.a or UNKNOWN,
            row.b or UNKNOWN,
            f"{row.importance:.2f}",
            _bar(row, found.largest),
            signed(row.contribution),
        )
    console.print(table)


def _bar(row: RubricRow, largest: float) -> Text:
    """Draw a contribution as a bar: to the left of the middle for A, to the right for B."""
    from rich.text import Text  # noqa: PLC0415

    from svr_async.evaluation.explain import favoured  # noqa: PLC0415

    cells = max(1, round(BAR_CELLS * abs(row.contribution) / largest)) if row.contribution and largest else 0
    left, right = (cells, 0) if favoured(row.contribution) == "A" else (0, cells)
    return Text.assemble(
        ("━" * left).rjust(BAR_CELLS),
        ("│", "dim"),
        ("━" * right).ljust(BAR_CELLS),
        style="cyan" if left else "yellow",
    )


def _show_texts(console: Console, found: Explanation) -> None:
    from rich.text import Text  # noqa: PLC0415

    from svr_async.evaluation.safetext import capped, for_terminal  # noqa: PLC0415

    if found.texts is None:
        console.print(Text("the run folder keeps no texts of this pair; --data PATH shows them", style="dim"))
        return
    for name, text in (
        ("prompt", found.texts.prompt),
        (f"response A{_tag(found, 'A')}", found.texts.response_a),
        (f"response B{_tag(found, 'B')}", found.texts.response_b),
    ):
        shown, more = capped(for_terminal(text), SHOWN_CHARS)
        console.print()
        console.print(Text(name, style="bold"))
        console.print(Text(shown))
        if more:
            console.print(Text(f"… {more:,} more characters", style="dim"))


def _tag(found: Explanation, side: str) -> str:
    tags = [
        words
        for words, which in (("right answer", found.item.gold), ("judge's choice", found.item.predicted))
        if which == side
    ]
    return f" ({', '.join(tags)})" if tags else ""
