"""What a person sees while a run goes on and when it ends: a progress bar, or plain lines without a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from svr_async.commands.screen import styled_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

    from svr_async.engine.admission.lane_stats import LaneStats
    from svr_async.engine.stats import EngineStats

PLAIN_EVERY_S = 10.0
REFRESH_EVERY_S = 0.1
WIDE = 112  # columns from which there is room for all of the bar
MOST_SCORES = 8
WORTH_TELLING_S = 1.0
RATE_LIMITED = "rate limited"
HELD = {
    RATE_LIMITED: "rate limited",
    "down": "no answer, next try in",
    "trying": "no answer, trying",
}  # by a lane's state


class RunProgress:
    """Counts judged items; shows rate, calls in flight, retries, memo hits, cost and time left.

    On a terminal it draws a bar; elsewhere it prints a line now and then; `quiet` prints nothing.
    """

    def __init__(self, total: int, stats: Callable[[], EngineStats] | None, *, quiet: bool = False) -> None:
        self._total = total
        self._stats = stats
        self._done = 0
        self._quiet = quiet
        self._last = self._started = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console

            self._bar = stage_bar(Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("judging", total=self._total, facts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):  # after a hang-up there is no terminal to write to
                self._show()
                self._bar.stop()

    def advance(self, _: object) -> None:
        """Count one item."""
        self._done += 1
        now = time.monotonic()
        every = REFRESH_EVERY_S if self._bar is not None else PLAIN_EVERY_S
        if now - self._last >= every:
            self._last = now
            self._show()

    def note(self, text: str) -> None:
        """Say something now, above the bar where there is one."""
        if not self._quiet:
            (self._bar.console.print if self._bar is not None else _to_stderr)(text)

    def _show(self) -> None:
        if self._quiet:
            return
        facts = engine_facts(self._stats)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, facts=facts)
        else:
            _to_stderr(plain_progress("judged", self._done, self._total, time.monotonic() - self._started, facts))


def engine_facts(stats: Callable[[], EngineStats] | None) -> str:
    """Say in one line what an engine is doing; empty without one."""
    if stats is None:
        return ""
    now = stats()
    parts = [f"{now.in_flight}/{now.limit} in flight" if now.waiting else f"{now.in_flight} in flight"]
    parts += [] if now.usd is None else [f"${now.usd:.2f}"]  # early: a narrow terminal cuts the end off
    parts += _held(now.lanes)
    parts += [f"{now.memo_hits} from memo"] if now.memo_hits else []
    parts += [f"{now.retries} retries"] if now.retries else []
    parts += [] if now.latency.p50 is None else [f"{_short(now.latency.p50)} a call"]
    if len(now.lanes) > 1:
        parts.append(" ".join(f"{_host(lane.name)} {lane.in_flight}" for lane in now.lanes))
    if now.sent and not now.in_flight and now.last_failure:
        parts.append(f"last: {_harmless(now.last_failure, 60)}")
    return ", ".join(parts)


def _held(lanes: Sequence[LaneStats]) -> list[str]:
    """Say which endpoints let no call leave and for how long; nothing of waits that are over before one has read it."""
    many = len(lanes) > 1
    return [
        f"{f'{_host(lane.name)} ' if many else ''}{HELD[lane.state]}{_wait(lane.wait_s)}"
        for lane in lanes
        if lane.state in HELD and (lane.wait_s >= WORTH_TELLING_S or lane.state != RATE_LIMITED)
    ]


def _host(lane: str) -> str:
    """Return what tells a lane from others in a few letters: host and port of a URL."""
    return _harmless(lane.partition("://")[2].partition("/")[0] or lane, 22)


def _wait(seconds: float) -> str:
    return f" {seconds:.0f} s" if seconds >= WORTH_TELLING_S else ""


def _short(seconds: float) -> str:
    """Return a time with two digits: 0.03 s, 1.2 s, 48 s."""
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def plain_progress(what: str, done: int, total: int, seconds: float, facts: str) -> str:
    """Return progress as a line for a log."""
    return f"{done}/{total} {what}, {done / max(1e-9, seconds):.0f}/s{', ' if facts else ''}{facts}"


def _to_stderr(text: str) -> None:
    click.echo(text, err=True)


def stage_bar(console: Console) -> Progress:
    """Return a bar for tasks with a field `facts`, which gives way first where the terminal is narrow."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    wide = console.width >= WIDE
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24 if wide else 10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}", style="dim", markup=False, table_column=Column(ratio=1, no_wrap=True)),
        TimeElapsedColumn() if wide else TextColumn(""),
        TextColumn("[dim]left"),
        TimeRemainingColumn(compact=not wide),
        console=console,
        transient=True,
        expand=True,
    )


def print_summary(metrics: Mapping[str, Any], folder: str) -> None:
    """Print the headline, the domains, the official scores and where the report is."""
    from svr_async.evaluation.chance import against_chance

    console = styled_console()
    title = f"{metrics['benchmark']} · {metrics['method']} · {metrics['judge_label']}"
    console.print(f"[bold]{_plain(title)}[/]" + ("" if metrics["complete"] else "  [bold red]PARTIAL[/]"))
    console.print(_headline(metrics))
    console.print(f"[dim]chance[/]    {against_chance(metrics, metrics['accuracy_ci95'])}")
    if len(metrics["by_domain"]) > 1:
        console.print(_domains(metrics))
    _print_official(console, metrics)
    console.print(f"[dim]outcomes[/]  {_outcomes(metrics['outcomes'])}")
    console.print(f"[dim]order[/]     {_order(metrics['order'])}")
    console.print(f"[dim]calls[/]     {_calls(metrics)}")
    for line in _panel(metrics):
        console.print(f"[dim]judges[/]    {line}")
    for note in metrics["notes"]:
        console.print(f"[dim]note[/]      {_plain(note)}")
    console.print(f"[dim]report[/]    {_plain(folder)}/report.html", soft_wrap=True)


def _domains(metrics: Mapping[str, Any]) -> Table:
    """Return the table of domains; ties at half credit have a column where there are any."""
    from rich.table import Table

    rows = metrics["by_domain"]
    tied = any(row["accuracy_half_credit"] != row["accuracy"] for row in rows.values())
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("domain", "n", "accuracy", "95 % interval", *(("ties at half",) if tied else ())):
        table.add_column(column, justify="left" if column == "domain" else "right")
    for name, row in rows.items():
        half = (_percent(row["accuracy_half_credit"]),) if tied else ()
        table.add_row(_plain(name), str(row["n"]), _percent(row["accuracy"]), _interval(row["ci95"]), *half)
    return table


def _outcomes(counts: Mapping[str, int]) -> str:
    """Name what became of the pairs; what a word means is said where it is not all of them that were scored."""
    from svr_async.evaluation.wording import OUTCOME_WORDS

    told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    if len(counts) < 2:
        return told
    return f"{told} ({'; '.join(f'{name}: {OUTCOME_WORDS[name]}' for name in counts if name in OUTCOME_WORDS)})"


def _harmless(text: str, limit: int = 400) -> str:
    from svr_async.vocabulary.safetext import one_line

    return one_line(text, limit)


def _plain(text: str) -> str:
    """Return a text from data or an endpoint that neither steers the terminal nor is read as markup."""
    from rich.markup import escape

    return escape(_harmless(text))


def _headline(metrics: Mapping[str, Any]) -> str:
    from svr_async.evaluation.wording import left_out

    n, accuracy = metrics["n_total"], metrics["accuracy"]
    low, high = metrics["accuracy_bounds"]
    told = f"accuracy [bold]{_percent(accuracy)}[/] {_interval(metrics['accuracy_ci95'])} of {n} pairs, "
    told += f"coverage {_percent(metrics['coverage'])}"
    if odd := left_out(metrics.get("left_out")):
        told += f" ({odd})"
    half = metrics["accuracy_half_credit"]
    if low == high == half == accuracy:  # every pair has a verdict that is no tie
        return told
    bounds = f"{_percent(low)} to {_percent(high)} if all ties and missing verdicts were wrong, or all right"
    return f"{told}, ties at half credit {_percent(half)}, {bounds}"


def _print_official(console: Any, metrics: Mapping[str, Any]) -> None:
    """Print the benchmark's own scores; long tables are left to the report."""
    from svr_async.evaluation.official import UNJUDGED_ARE_WRONG, has_official_rule, own_scores

    official = own_scores(metrics)
    ruled = has_official_rule(metrics)
    note = "" if metrics["complete"] else f"  ({UNJUDGED_ARE_WRONG})"
    _print_scores(console, "official" if ruled else "scores", official, note)
    for name, value in official.items():
        numbers = _numbers(value) if isinstance(value, dict) else {}
        if numbers and len(numbers) <= MOST_SCORES:
            _print_scores(console, name.replace("_", " "), numbers)


def _print_scores(console: Any, title: str, scores: Mapping[str, Any], note: str = "") -> None:
    numbers = _numbers(scores)
    if numbers:
        text = ", ".join(f"{_plain(name)} {_percent(value)}" for name, value in numbers.items())
        console.print(f"[dim]{_plain(title):<9}[/] {text}{note}")


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    from svr_async.evaluation.reporting.runfacts import number

    return {str(name): known for name, value in values.items() if (known := number(value)) is not None}


def _order(order: Mapping[str, Any]) -> str:
    from svr_async.evaluation.wording import order_in_words

    if not order["audited"]:
        return f"{order_in_words(order['policy'])}; none judged in both orders"
    close = f" (margin below {order['audit_below']:g})" if "audit_below" in order else ""
    return (
        f"{order_in_words(order['policy'])}; {order['audited']} judged in both orders{close}: on "
        f"{_percent(order['flip_rate'])} the verdict flips, {_percent(order['lean_a'])} of verdicts are for the one "
        "shown first"
    )


def _calls(metrics: Mapping[str, Any]) -> str:
    return f"{calls_in_words(metrics)}; {metrics['wall_s']:.1f} s"


def calls_in_words(metrics: Mapping[str, Any]) -> str:
    """Say what was sent and what it cost, from the blocks of metrics.json."""
    calls, cost = metrics["calls"], metrics["cost_usd"]
    if not calls["sent"] and not calls["memo_hits"]:
        return "none"
    price = (
        "price unknown" if cost is None else f"${cost:.4f} for these answers, ${metrics['paid_usd']:.4f} of it paid now"
    )
    sent = f"{calls['sent']:,} sent, {calls['memo_hits']:,} from memo, {calls['retries']:,} retries"
    broken = calls.get("repaired", 0)
    again = f", {broken:,} asked again for a reply that could not be read" if broken else ""
    return f"{sent}{again}; {price}{_cached(metrics)}"


def _cached(metrics: Mapping[str, Any]) -> str:
    cache = metrics["cache"]
    if not cache["cached_share"]:
        return ""
    saved = "" if not cache["saved_usd"] else f", ${cache['saved_usd']:.4f} saved"
    return f"; {_percent(cache['cached_share'])} of the input from the endpoint's cache{saved}"


def _panel(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield what several judges of a run did: how they agree, and what each was asked."""
    votes = metrics.get("votes") or {}
    agreement = votes.get("agreement")
    told = [] if agreement is None else [f"all agree on {_percent(agreement)} of the pairs that more than one judged"]
    if "escalated" in votes:
        told.append(f"{votes['escalated']} pairs escalated, {votes['changed']} changed sides")
    if told:
        yield "; ".join(told)
    for name, block in (metrics.get("judges") or {}).items():
        calls, cost = block["calls"], block["cost_usd"]
        price = "price unknown" if cost is None else f"${cost:.4f}"
        yield f"{_plain(name)}: {calls['sent']} sent, {calls['memo_hits']} from memo; {price}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _interval(ends: list[float]) -> str:
    return f"[{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]"
