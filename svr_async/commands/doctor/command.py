"""`svr doctor`: is everything there that an evaluation needs? One line a check, with a cure where one is needed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svr_async.commands.options import PATH, GroupedCommand, base_url_option, cache_option, json_option
from svr_async.commands.screen import print_json
from svr_async.errors import SvrError

if TYPE_CHECKING:
    from svr_async.judges.doctor.findings import Finding

MARKS = {"ok": ("ok  ", "green"), "warn": ("WARN", "yellow"), "fail": ("FAIL", "red"), "none": ("–   ", None)}
MOST_CALLS = 12
INDENT = 14  # where the words of a line begin
LINE_CHARS = 600  # of a finding, parts of which come from the endpoint


@click.command(cls=GroupedCommand)
@click.option("--judge", metavar="J", help="Also examine this judge's endpoint, with a few small calls.")
@base_url_option
@click.option(
    "--max-calls",
    type=click.IntRange(min=0),
    default=MOST_CALLS,
    show_default=True,
    metavar="N",
    help="Ask the endpoint no more than this; 0 only looks at its list of models.",
)
@cache_option
@click.option("--data", type=PATH, metavar="PATH", help="Also read this data set.")
@json_option
def doctor(
    judge: str | None,
    base_url: str,
    max_calls: int,
    cache: Path | str,
    data: Path | None,
    benchmark: str,
    as_json: bool,
) -> int:
    """Check cache, disk, device and data; with --judge the endpoint: key, model, limits, what it honours, its speed.

    \b
    Example:  svr doctor --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1
    """
    from svr_async.engine.cache import local_folder
    from svr_async.judges.doctor import local

    found = [local.checked("cache", lambda: local.cache_finding(cache))]
    found.append(local.checked("disk", lambda: local.disk_finding(local_folder(cache))))
    found.append(local.checked("device", lambda: local.device_finding(_device)))
    if data is not None:
        found.append(local.checked("data", lambda: _data_finding(benchmark, data)))
    if judge is None:
        found.append(local.no_judge())
    elif judge != "rules":
        found += _endpoint(judge, base_url, max_calls, quiet=as_json)
    _show(found, as_json=as_json)
    return next((finding.exit_code for finding in found if finding.state == "fail"), 0)


def _device() -> str:
    from svr_async.fit.device import devices_in_words

    return devices_in_words()


def _data_finding(benchmark: str, path: Path) -> Finding:
    from svr_async.adapters import get_adapter
    from svr_async.judges.doctor.findings import Finding

    dataset = get_adapter(benchmark).load(path)
    notes = "".join(f"; {note}" for note in dataset.notes)
    return Finding(name="data", state="ok", text=f"{len(dataset.pairs):,} pairs in {path}{notes}")


def _endpoint(judge: str, base_url: str, max_calls: int, *, quiet: bool) -> list[Finding]:
    from svr_async.judges.doctor.endpoint import choose_questions, examine
    from svr_async.judges.doctor.findings import Finding, failed
    from svr_async.judges.spec import JudgeSpec

    try:
        spec = JudgeSpec.parse(judge, base_url=base_url)
    except SvrError as error:
        return [failed("judge", error)]
    profile = spec.profile
    if profile is None:
        return [Finding(name="judge", state="ok", text=f"{judge} sends nothing")]
    held = f"key from ${profile.key_env}" if os.environ.get(profile.key_env) else f"${profile.key_env} is not set"
    text = f"{profile.model} at {profile.base_url}, {held if profile.key_env else 'no key'} ({profile.source})"
    checkup = choose_questions(profile, max_calls)
    if not quiet:
        click.echo(f"asking {profile.base_url}: {checkup.describe()}", err=True)
    return [Finding(name="judge", state="ok", text=text), *asyncio.run(examine(checkup, spec))]


def _show(found: list[Finding], *, as_json: bool) -> None:
    from svr_async.core.safetext import one_line

    if as_json:
        print_json([one.to_json() for one in found])
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else LINE_CHARS + INDENT
    for one in found:
        mark, colour = MARKS[one.state]
        lines = textwrap.wrap(one_line(one.line(), LINE_CHARS), max(20, width - INDENT), break_on_hyphens=False) or [""]
        click.echo(f"{click.style(mark, fg=colour)} {one.name:<8} " + f"\n{' ' * INDENT}".join(lines))
