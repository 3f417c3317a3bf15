"""Which run a batch is for: the words of its command read as that command reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from svr_async.commands.main import svr
from svr_async.commands.options import given_flags
from svr_async.errors import UsageError
from svr_async.judges.batch_run import BatchRun

TRAINING = ("judge", "induce", "train")


def run_of(words: Sequence[str]) -> BatchRun:
    """Read a command, e.g. ("eval", "rubricbench", "--judge", …); UsageError where it asks no endpoint."""
    name, args = command_of(words)
    if name == "eval":
        return _evaluation(params_of(name, args))
    if name in TRAINING:
        return _training(name, params_of(name, args))
    raise UsageError(f"svr {name} asks no judge in a way that a batch can", hint=f"eval, {', '.join(TRAINING)} do")


def command_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command and its arguments; it may be written with `svr` before it, or as `svr-eval`."""
    rest = list(words[1:] if words[:1] == ("svr",) else words)
    if not rest:
        raise UsageError("there is no command to export", hint="svr batch export FOLDER eval rubricbench --judge J")
    return ("eval" if rest[0] == "svr-eval" else rest[0]), rest[1:]


def params_of(name: str, args: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's options as it would see them, --config and SVR_… variables included."""
    command = svr.get_command(click.Context(svr), name)
    assert command is not None
    with command.make_context(f"svr {name}", list(args), auto_envvar_prefix=f"SVR_{name.upper()}") as context:
        return dict(context.params) | {"given": given_flags(context)}


def _evaluation(params: Mapping[str, Any]) -> BatchRun:
    from svr_async.commands.settings import eval_settings
    from svr_async.evaluation.running.rehearsal import rehearsed

    return rehearsed(eval_settings({**params, "dry_run": False, "offline": True}, params["given"]))


def _training(name: str, params: Mapping[str, Any]) -> BatchRun:
    from svr_async.commands.train_settings import stage_settings, train_settings
    from svr_async.training.rounds.algorithm import run_rounds
    from svr_async.training.running.candidates import ask_for_candidates, load_rubrics
    from svr_async.training.running.entries import ask_for_entries
    from svr_async.training.running.rehearsal import rehearsed

    if name == "train":
        return rehearsed(train_settings(params), run_rounds, staged=True)
    settings = stage_settings(params)
    if name == "induce":
        return rehearsed(settings, ask_for_candidates, staged=False)
    rubrics = load_rubrics(params["bank"], params["candidates"])
    return rehearsed(settings, lambda session: ask_for_entries(session, rubrics), staged=False)
