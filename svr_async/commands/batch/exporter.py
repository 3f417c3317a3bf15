"""The work behind `svr batch export`: a run's missing calls into a folder of batch files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async.commands.batch.run import command_of, run_of
from svr_async.engine.batch.folder import Export
from svr_async.engine.batch.requests import BatchLimits
from svr_async.engine.money import BATCH_PRICE_SHARE
from svr_async.evaluation.wording import dollars
from svr_async.judges.batch_export import Exported, export, tokens_of
from svr_async.judges.batch_run import choose_endpoint
from svr_async.judges.profile import Profile


def run_export(folder: Path, words: Sequence[str], limits: BatchLimits, *, only: str | None, as_json: bool) -> int:
    """Export and return the exit code; a folder that holds another export is left as it is."""
    name, args = command_of(tuple(words))
    run = run_of((name, *args))
    profile = choose_endpoint(run, only)
    exported = export(run, profile, folder, (name, *args), limits)
    if exported.again:
        click.echo(f"{folder} holds this very export already", err=True)
    facts = _facts(run.staged, profile, exported)
    click.echo(
        orjson.dumps(facts, option=orjson.OPT_INDENT_2) if as_json else _told(folder, profile, facts, (name, *args))
    )
    return 0


def _written(export: Export | None) -> list[dict[str, Any]]:
    files = () if export is None else export.files
    return [{"name": file.name, "requests": file.requests, "bytes": file.bytes} for file in files]


def _facts(staged: bool, profile: Profile, exported: Exported) -> dict[str, Any]:
    price, planned = profile.price, exported.planned
    usd = {"usd": planned.dollars(price), "max_usd": planned.dollars(price, worst=True)}
    return {
        "requests": exported.requests,
        "judge": profile.name,
        **tokens_of(planned),
        **usd,
        "memo_hits": exported.memo_hits,
        "too_long": exported.too_long,
        "staged": staged,
        "files": _written(exported.export),
    }


def _told(folder: Path, profile: Profile, facts: dict[str, Any], words: Sequence[str]) -> str:
    """Say what was exported and what to do next."""
    if not facts["requests"]:
        return f"0 requests: all {facts['memo_hits']:,} answers are in the memo — svr {shlex.join(words)}"
    sizes = sum(file["bytes"] for file in facts["files"]) / 1e6
    count = len(facts["files"])
    written = f"{facts['requests']:,} requests in {folder}, {count} file{'s' * (count != 1)}, {sizes:.1f} MB"
    lines = [
        f"{written}; {facts['memo_hits']:,} answers were in the memo already.",
        f"About {facts['prompt_tokens']:,} tokens in and {facts['completion_tokens']:,} out; {_cost(facts)}.",
    ]
    if facts["too_long"]:
        lines.append(f"{facts['too_long']} requests are longer than a file may be: the command itself asks them.")
    if facts["staged"]:
        lines.append(
            "Calls that depend on these replies are exported after the import, by the same command into another folder."
        )
    lines += ["Next:", f"  svr batch submit {folder}", f"  svr batch import {folder} --wait"]
    return "\n".join([*lines, *_vllm(folder, profile, facts)])


def _vllm(folder: Path, profile: Profile, facts: dict[str, Any]) -> list[str]:
    names = [file["name"] for file in facts["files"][:1]]
    return [
        f"or, without such an endpoint:\n  vllm run-batch -i {folder / name} "
        f"-o {folder / name.replace('requests', 'results')} --model {profile.model}"
        for name in names
    ]


def _cost(facts: dict[str, Any]) -> str:
    if facts["usd"] is None:
        return "price unknown: give --price IN/OUT, or price = [in, cached, out] in judges.toml"
    live = facts["usd"] / BATCH_PRICE_SHARE
    return f"about {dollars(facts['usd'])} as a batch, {dollars(live)} live; at worst {dollars(facts['max_usd'])}"
