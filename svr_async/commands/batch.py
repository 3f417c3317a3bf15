"""`svr batch`: a run's missing calls as OpenAI Batch files, at half the price, and their replies in the cache."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from svr_async.commands import options as opt
from svr_async.commands.main import svr
from svr_async.commands.options import flag, given_flags, option
from svr_async.commands.screen import tell
from svr_async.core.safetext import for_terminal, one_line
from svr_async.engine import batch_files
from svr_async.engine.money import BATCH_PRICE_SHARE
from svr_async.errors import ArtefactError, CoverageError, RefusedError, UsageError
from svr_async.evaluation.wording import dollars, plural
from svr_async.judges import batch as calls

STAGES = ("judge", "induce")
TRAINING = (*STAGES, "train")

folder_argument = click.argument("folder", type=opt.FOLDER)
base_url_option = option("--base-url URL", "Endpoint of the batches.", default="")


@click.group()
def batch() -> None:
    """Make a run's calls as a batch, at half the price: export, submit, import, then run the command itself.

    \b
    Example:  svr batch export batch/ eval rubricbench --judge gpt-5-mini
    """


@batch.command(context_settings={**opt.HELP, "allow_interspersed_args": False})
@option("--max-requests N", "Requests a file.", type=opt.COUNT, default=50_000)
@option("--only J", "With several judges: the one to export. Each needs its own folder.")
@opt.json
@folder_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def export(folder: Path, command: tuple[str, ...], max_requests: int, only: str | None, *, as_json: bool) -> int:
    """Write the missing calls of COMMAND (eval, train, stages judge, stages induce; with its options) to FOLDER.

    Nothing is sent. Calls that depend on missing replies, such as verdicts on rubrics that a judge has yet to write,
    are exported after the import, by the same command into another folder.

    \b
    Example:  svr batch export batch/ eval rubricbench --judge gpt-5-mini
    """
    words = command_of(command)
    run = run_of(words)
    profile = calls.choose_endpoint(run, only)
    exported = calls.export(run, profile, folder, words, max_requests=max_requests)
    tell(msgspec.to_builtins(exported), _export_text(folder, profile.model, exported, words), as_json=as_json)
    return 0


@batch.command(context_settings=opt.HELP)
@folder_argument
@base_url_option
@opt.json
def submit(folder: Path, base_url: str, *, as_json: bool) -> int:
    """Upload the files of an export and create their batches. A file is submitted again only if its batch failed.

    \b
    Example:  svr batch submit batch/
    """
    return _show(folder, base_url, first=True, as_json=as_json)


@batch.command(context_settings=opt.HELP)
@folder_argument
@base_url_option
@opt.json
def status(folder: Path, base_url: str, *, as_json: bool) -> int:
    """Show the state of an export's batches.

    \b
    Example:  svr batch status batch/
    """
    return _show(folder, base_url, first=False, as_json=as_json)


@batch.command("import", context_settings=opt.HELP)
@folder_argument
@click.argument("results", nargs=-1, type=click.Path(path_type=Path, dir_okay=False))
@flag("--wait", "Wait until all batches have ended.")
@base_url_option
@opt.json
def import_(folder: Path, results: tuple[Path, ...], base_url: str, *, wait: bool, as_json: bool) -> int:
    """Put the replies of an export's batches into the cache. RESULTS are local result files, e.g. of vllm run-batch.

    Without RESULTS, the result files of the batches are downloaded to FOLDER, and every results-*.jsonl and
    errors-*.jsonl there is read. Only replies that answer their questions are stored. Exit 3 if some are missing.

    \b
    Example:  svr batch import batch/ out.jsonl
    """
    exported = batch_files.load_export(folder)
    paths = results or _download(folder, exported, base_url, wait=wait, quiet=as_json)
    keys = batch_files.exported_keys(folder / file.name for file in exported.files)
    lines = batch_files.Results(paths, keys)
    report = calls.import_results(run_of(exported.command), lines, keys, exported.judge)
    tell({**msgspec.to_builtins(report), "lines": dict(lines.counts)}, _import_text(report, lines), as_json=as_json)
    next_step = _after_import(folder, exported, report, lines)
    if not as_json:
        click.echo(for_terminal(next_step))
    return 0


def run_of(words: Sequence[str]) -> calls.BatchRun:
    """Parse a command, e.g. ("eval", "rubricbench", "--judge", …); UsageError if it calls no endpoint."""
    name, *args = words
    if name == "eval":
        from svr_async.commands.eval_run import eval_settings
        from svr_async.evaluation.run import batch_evaluation

        params = params_of(name, args)
        return batch_evaluation(eval_settings({**params, "dry_run": False, "offline": True}, params["given"]))
    if name == "stages" and args:
        name, *args = args
    if name in TRAINING:
        return _training(name, params_of(name, args))
    raise UsageError(f"svr {name} cannot be made as a batch", hint="eval, train, stages judge and stages induce can")


def command_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command and its arguments; it may start with `svr`, or be `svr-eval`."""
    rest = tuple(words[1:] if words[:1] == ("svr",) else words)
    if not rest:
        raise UsageError("no command to export", hint="svr batch export FOLDER eval rubricbench --judge J")
    return ("eval" if rest[0] == "svr-eval" else rest[0], *rest[1:])


def params_of(name: str, args: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's options, including those from --config and SVR_… variables."""
    group: click.Command | None = svr.get_command(click.Context(svr), "stages") if name in STAGES else svr
    assert isinstance(group, click.Group)
    command, path = group.get_command(click.Context(group), name), f"stages {name}" if name in STAGES else name
    assert command is not None
    prefix = f"SVR_{path.replace(' ', '_').upper()}"
    with command.make_context(f"svr {path}", list(args), auto_envvar_prefix=prefix) as context:
        return dict(context.params) | {"given": given_flags(context)}


def _training(name: str, params: Mapping[str, Any]) -> calls.BatchRun:
    from svr_async.commands.train_run import stage_settings, train_settings
    from svr_async.training.rounds.algorithm import run_rounds
    from svr_async.training.train import BatchTraining, ask_for_candidates, ask_for_entries, load_rubrics

    if name == "train":
        return BatchTraining(settings=train_settings(params), work=run_rounds, staged=True)
    settings = stage_settings(params)
    if name == "induce":
        return BatchTraining(settings=settings, work=ask_for_candidates, staged=False)
    rubrics = load_rubrics(params["bank"], params["candidates"])
    return BatchTraining(settings=settings, work=lambda session: ask_for_entries(session, rubrics), staged=False)


def _download(
    folder: Path, exported: batch_files.Export, base_url: str, *, wait: bool, quiet: bool
) -> tuple[Path, ...]:
    """Download the results that are ready, and return all result files in the folder."""
    from svr_async.engine import batch_api

    shown = ""

    def show(state: batch_files.State) -> None:
        nonlocal shown
        if shown != (shown := _state_text(state)) and not quiet:
            click.echo(shown, err=True)

    state = batch_files.load_state(folder, exported)
    if state is not None:
        state = calls.at_endpoint(folder, base_url, partial(batch_api.fetch, wait=wait, on_state=show))
    paths = (*sorted(folder.glob("results-*.jsonl")), *sorted(folder.glob("errors-*.jsonl")))
    if paths:
        return paths
    if state is None:
        hint = f"svr batch submit {folder}, or name the result files of vllm run-batch"
        raise UsageError(f"{folder} has no results and was not submitted", hint=hint)
    _refuse_failed(folder, state)
    states = ", ".join(sorted({one.status or "not submitted" for one in state.batches}))
    raise CoverageError(f"no replies are ready: {states}", hint=f"svr batch status {folder}")


def _refuse_failed(folder: Path, state: batch_files.State) -> None:
    for one in state.batches:
        if one.status == "failed":
            raise RefusedError(
                f"the batch of {one.file} failed: {one.problem or 'the endpoint gives no reason'}",
                hint=f"fix this, then svr batch submit {folder}; a failed batch costs nothing",
            )


def _export_text(folder: Path, model: str, report: calls.Exported, words: Sequence[str]) -> str:
    cached = f"{report.cache_hits:,} answers are in the cache."
    if not report.requests:
        return f"0 requests; {cached} Next: svr {shlex.join(words)}"

    files, size = plural(len(report.files), "file"), sum(file.bytes for file in report.files) / 1e6
    price = "price unknown (--price IN/OUT)"
    if report.usd is not None:
        live, most = dollars(report.usd / BATCH_PRICE_SHARE), dollars(report.max_usd)
        price = f"about {dollars(report.usd)} as a batch, at most {most}; {live} live"
    staged = "Calls that depend on these replies: export the command again after the import.\n" if report.staged else ""
    return f"""{report.requests:,} requests in {folder}, {files}, {size:.1f} MB; {cached}
About {report.prompt_tokens:,} tokens in and {report.completion_tokens:,} out; {price}.
{staged}Next:
  svr batch submit {folder}
  svr batch import {folder} --wait
or, without a batch endpoint:
  vllm run-batch -i {folder / report.files[0].name} -o {folder / "results-0001.jsonl"} --model {model}"""


def _import_text(report: calls.Imported, lines: batch_files.Results) -> str:
    price = "" if report.usd is None else f", ${report.usd:.4f} as a batch"
    text = f"{report.new:,} new replies{price}; {report.known:,} were in the cache; "
    text += f"{report.answered:,} of {report.requests:,} requests are answered."
    counts = {name: getattr(report, name) for name in ("unused", "unreadable", "failed", "missing")}
    counts |= {f"{kind} lines": lines.counts[kind] for kind in ("repeated", "foreign", "damaged")}
    text += "".join(f"\n{count:,} {name}" for name, count in counts.items() if count)
    return text + "".join(f"\n  failed: {one_line(message, 200)}" for message in lines.messages)


def _after_import(
    folder: Path, exported: batch_files.Export, report: calls.Imported, lines: batch_files.Results
) -> str:
    """Return the next step; raise if replies are missing, or if no line belongs to this export."""
    command = f"svr {shlex.join(exported.command)}"
    again = f"svr batch export {calls.next_folder(folder)} {shlex.join(exported.command)}"
    if lines.counts and set(lines.counts) <= {"foreign", "damaged"}:
        raise ArtefactError(f"no line of these files is a result of {folder}", hint="name its result files")
    if report.answered < report.requests:
        answered, hint = "requests are answered", f"{again} exports the rest; {command} asks it live"
        if batch_files.unfinished(folder):
            hint = f"the endpoint is still working: svr batch import {folder} --wait"
        elif report.fix:
            answered, hint = f"{answered}; the model refuses a setting", f"{report.fix}; then {again}"
        raise CoverageError(f"{report.answered:,} of {report.requests:,} {answered}", hint=hint)
    if report.next_stage:
        return f"The next stage has {report.next_stage:,} calls:\n  {again}"
    return f"All replies are in the cache. Next:\n  {command}"


def _show(folder: Path, base_url: str, *, first: bool, as_json: bool) -> int:
    """Submit an export, or refresh its batches, and show their state."""
    from svr_async.engine import batch_api

    state = calls.at_endpoint(folder, base_url, batch_api.submit if first else batch_api.refresh, first=first)
    step = "import" if all(one.batch_id for one in state.batches) else "submit"
    text = f"{_state_text(state)}\nNext: svr batch {step} {folder}"
    tell({**msgspec.to_builtins(state), "folder": str(folder)}, text, as_json=as_json)
    _refuse_failed(folder, state)
    return 0


def _state_text(state: batch_files.State) -> str:
    """Return a line for each batch, without control characters of the endpoint's texts."""
    lines = []
    for one in state.batches:
        minutes = max(0, int(time.time()) - one.created) // 60
        age = f", {minutes // 60} h {minutes % 60} min" if one.created else ""
        counts = f"{one.done:,} of {one.total:,} done, {one.failed:,} failed{age}"
        lines.append(f"{one.file}  {one.status or 'not submitted'}: {counts}  {one.batch_id} {one.problem}")
    return "\n".join(one_line(line, 300).rstrip() for line in lines)
