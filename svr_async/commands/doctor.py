"""`svr doctor`: is everything there that an evaluation needs? One line a check, with a cure where one is needed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async.commands.options import common
from svr_async.errors import SvrError, UsageError

MIN_FREE_BYTES = 200 * 2**20
MODELS_TIMEOUT_S = 5.0
MAX_MODELS_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: whether it passed, what was seen, and the exit code of the error where there was one."""

    name: str
    ok: bool
    text: str
    exit_code: int = 0


@click.command()
@click.option("--judge", metavar="J", help="Also call this judge once.")
@click.option("--base-url", default="", metavar="URL", help="Where the endpoint is, over the profile's.")
@click.option("--memo", type=click.Path(path_type=Path), default=Path("cache/memo"), show_default=True, metavar="DIR")
@click.option("--data", type=click.Path(path_type=Path), metavar="PATH", help="Also read this data set.")
@click.option("--benchmark", default="pairs", show_default=True, metavar="NAME", help="The adapter for --data.")
@common
def doctor(judge: str | None, base_url: str, memo: Path, data: Path | None, benchmark: str, **flags: Any) -> int:
    """Check memo, disk and data, and with --judge key, endpoint and model.

    \b
    Example:  svr doctor --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1
    """
    findings = [_check("memo", lambda: _memo(memo)), _check("disk", lambda: _disk(memo))]
    if data is not None:
        findings.append(_check("data", lambda: _data(benchmark, data)))
    if judge is not None and judge != "rules":
        findings += [
            _check("judge", lambda: _profile(judge, base_url)),
            _check("models", lambda: _models(judge, base_url)),
            _check("call", lambda: _call(judge, base_url)),
        ]
    if flags["as_json"]:
        rows = [{"check": f.name, "ok": f.ok, "detail": f.text} for f in findings]
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    else:
        for finding in findings:
            mark = click.style("ok  ", fg="green") if finding.ok else click.style("FAIL", fg="red")
            click.echo(f"{mark} {finding.name:<6} {finding.text}")
    return next((f.exit_code for f in findings if not f.ok), 0)


def _check(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, ok=True, text=look())
    except SvrError as error:
        return Finding(name, ok=False, text=error.one_line(), exit_code=error.exit_code)


def _memo(memo: Path) -> str:
    from svr_async.engine.memo import Memo  # noqa: PLC0415

    opened = Memo.open(memo)
    opened.close()
    return f"{memo} opens{'' if opened.writable else ' for reading only'}"


def _disk(memo: Path) -> str:
    import shutil  # noqa: PLC0415

    from svr_async.errors import StorageError  # noqa: PLC0415

    free = shutil.disk_usage(memo if memo.exists() else Path.cwd()).free
    if free < MIN_FREE_BYTES:
        raise StorageError(f"only {free / 2**20:.0f} MiB are free where {memo} lies", hint="free some space")
    return f"{free / 2**30:.1f} GiB free"


def _data(benchmark: str, path: Path) -> str:
    from svr_async.adapters import get_adapter  # noqa: PLC0415

    dataset = get_adapter(benchmark).load(path)
    return f"{len(dataset.pairs)} pairs in {path}" + "".join(f"; {note}" for note in dataset.notes)


def _profile(judge: str, base_url: str) -> str:
    from svr_async.judges.profiles import find_profile  # noqa: PLC0415

    profile = find_profile(judge.removesuffix("+rules"), base_url=base_url)
    key = f"key from ${profile.key_env}" if os.environ.get(profile.key_env) else f"${profile.key_env} is not set"
    return f"{profile.model} at {profile.base_url}, {key if profile.key_env else 'no key'} ({profile.source})"


def _models(judge: str, base_url: str) -> str:
    return asyncio.run(_served(judge, base_url))


async def _served(judge: str, base_url: str) -> str:
    """Name the models that the endpoint says it serves; one that does not say is no failure."""
    import aiohttp  # noqa: PLC0415

    from svr_async.engine.secrets import key_from_environment  # noqa: PLC0415
    from svr_async.evaluation.safetext import one_line  # noqa: PLC0415
    from svr_async.judges.profiles import find_profile  # noqa: PLC0415

    profile = find_profile(judge.removesuffix("+rules"), base_url=base_url)
    key = key_from_environment(profile.key_env)
    headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=MODELS_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(f"{profile.base_url}/models", allow_redirects=False) as reply,
        ):
            rows = orjson.loads(await reply.content.read(MAX_MODELS_BYTES))["data"]
            names = [str(row["id"]) for row in rows]
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError):
        return "the endpoint does not list its models"
    return f"the endpoint serves {one_line(', '.join(names), 300) or 'no model'}"


def _call(judge: str, base_url: str) -> str:
    return asyncio.run(_ask_once(judge, base_url))


async def _ask_once(judge: str, base_url: str) -> str:
    """Ask a direct question with a plain answer, past the memo, and say how long the answer took."""
    import tempfile  # noqa: PLC0415

    from svr_async.engine.config import EngineConfig  # noqa: PLC0415
    from svr_async.engine.failures import FailureLog  # noqa: PLC0415
    from svr_async.engine.money import Budget  # noqa: PLC0415
    from svr_async.judges.opening import EndpointOptions, open_endpoint_judge  # noqa: PLC0415
    from svr_async.judges.profiles import find_profile  # noqa: PLC0415
    from svr_async.vocabulary.pair import Presentation, user_prompt  # noqa: PLC0415

    profile = find_profile(judge.removesuffix("+rules"), base_url=base_url)
    config = EngineConfig(concurrency=1, attempts=3, repairs=1, first_contact_s=1.0, wait_s=0.2)
    shown = Presentation(
        pair_id="doctor", prompt=user_prompt("What is 2 + 2?"), response_a="2 + 2 is 4.", response_b="I like turtles."
    )
    with tempfile.TemporaryDirectory() as folder:
        options = EndpointOptions(
            memo=Path(folder), config=config, budget=Budget(), failures=FailureLog(), timeout_s=60.0
        )
        opened = open_endpoint_judge(judge, profile, options)
        begun = time.monotonic()
        try:
            answer = await opened.judge.prefer(shown)
        finally:
            await opened.close()
    if answer.value is None:
        raise UsageError(f"the endpoint answered, but not with a verdict: {answer.detail}", hint="is it a chat model?")
    side = "A, as it should" if answer.value.margin > 0 else "B, which is wrong"
    simulated = " (SIMULATED endpoint)" if "SIMULATED" in opened.label else ""
    return f"answered in {time.monotonic() - begun:.2f} s and chose {side}{simulated}"
