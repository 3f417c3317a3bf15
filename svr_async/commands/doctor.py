"""`svr doctor`: is everything ready for an evaluation? One line for each check, with what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svr_async.commands import options as opt
from svr_async.commands.options import option
from svr_async.commands.screen import print_json
from svr_async.errors import SvrError

if TYPE_CHECKING:
    from svr_async.judges.doctor import Finding

MARKS = {"ok": ("ok  ", "green"), "warn": ("WARN", "yellow"), "fail": ("FAIL", "red"), "none": ("–   ", None)}
LINE_CHARS = 600  # maximum characters of a finding, which may quote the endpoint


@click.command()
@option("--judge J", "Also check this judge's endpoint, with at most six small calls.")
@opt.base_url
@opt.cache
@option("--data PATH", "Also read this file of pairs.", type=opt.PATH)
@opt.json
def doctor(judge: str | None, base_url: str, cache: Path | str, data: Path | None, as_json: bool) -> int:
    """Check cache and data; with --judge the endpoint: key, model, limits, JSON mode, latency, a verdict.

    Each call is capped at 256 tokens and 30 s.

    \b
    Example:  svr doctor --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1
    """
    findings: list[Finding] = []

    async def check() -> None:
        """Print each finding at once; with --json only collect them."""
        async for finding in _findings(judge, base_url, cache, data):
            findings.append(finding)
            if not as_json:
                _show(finding)

    asyncio.run(check())
    if as_json:
        print_json([finding.to_json() for finding in findings])
    return next((finding.exit_code for finding in findings if finding.state == "fail"), 0)


async def _findings(judge: str | None, base_url: str, cache: Path | str, data: Path | None) -> AsyncIterator[Finding]:
    """Yield findings about this machine, then about the endpoint, one by one."""
    from svr_async.judges import doctor as checks

    local = {"cache": partial(checks.cache_finding, cache)}
    if data is not None:
        local["data"] = partial(_data_finding, data)
    for name, check in local.items():
        try:
            yield check()
        except SvrError as error:
            yield checks.failed(name, error)
    if judge is None:
        cure = "--judge J checks its endpoint: key, model, limits, latency"
        yield checks.Finding("judge", "none", "not set", cure)
        return
    async for finding in checks.examine(judge, base_url):
        yield finding


def _data_finding(path: Path) -> Finding:
    from svr_async.adapters import get_adapter
    from svr_async.judges.doctor import Finding

    dataset = get_adapter("pairs").load(path)
    return Finding("data", "ok", "; ".join([f"{len(dataset.pairs):,} pairs in {path}", *dataset.notes]))


def _show(finding: Finding) -> None:
    from svr_async.core.safetext import one_line

    mark, colour = MARKS[finding.state]
    click.echo(f"{click.style(mark, fg=colour)} {finding.name:<8} {one_line(finding.line(), LINE_CHARS)}")
