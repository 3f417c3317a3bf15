"""The `svr` group, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svr_async.commands.dotenv import load_dotenv
from svr_async.errors import SvrError, UsageError
from svr_async.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "eval": ("eval:evaluate", "Judge a benchmark or a file of pairs."),
    "train": ("train:train", "Train a bank of rubrics on preference pairs."),
    "explain": ("explain:explain", "Explain one decision; --calls shows requests and replies."),
    "rank": ("rank:rank", "Rank responses to a prompt, or to each prompt of a file."),
    "serve": ("serve:serve", "Serve rewards and rankings over HTTP."),
    "view": ("pages:view", "Open the page of a run, of two side by side, or of a bank."),
    "runs": ("results:runs", "List runs, the latest first."),
    "report": ("pages:report", "Write runs or a bank as HTML, Markdown, LaTeX or CSV."),
    "compare": ("results:compare", "Compare runs: intervals, paired tests, judge drift."),
    "gate": ("results:gate", "Exit 9 if a run is significantly worse than a baseline."),
    "agreement": ("results:agreement", "Compare a run with human labels."),
    "judges": ("judges:judges", "List judges and their prices."),
    "doctor": ("doctor:doctor", "Check endpoint, key, cache and data."),
    "batch": ("batch:batch", "Make a run's calls as a batch, at half the price."),
    "cache": ("cache:cache", "Show, copy or clear the stored replies."),
    "data": ("data:data", "List, check, split and fetch benchmarks and training sets."),
    "bank": ("bank:bank", "Show, check, edit, merge and share a bank of rubrics."),
    "fit": ("train:fit", "Fit a bank on a feature store."),
    "stages": ("train:stages", "Run the stages of training one by one."),
    "merge": ("results:merge", "Merge the shards of a run."),
    "repro": ("pages:repro", "Rebuild the paper's tables."),
    "sim": ("sim:sim", "Serve the simulated judge endpoint."),
}
SECTIONS = {
    "Judge and train": ("eval", "train", "explain"),
    "Use a bank": ("rank", "serve", "bank", "fit"),
    "Results": ("view", "runs", "report", "compare", "gate", "agreement"),
    "Judges and their replies": ("judges", "doctor", "batch", "cache"),
    "Data": ("data",),
}
HIDDEN = frozenset({"stages", "merge", "repro", "sim"})
MEANT = {  # options of other tools
    "--model": "--judge", "--api-base": "--base-url", "--n": "--limit", "--max-samples": "--limit",
    "--num-samples": "--limit", "--output": "--out", "--output-dir": "--out", "--memo": "--cache",
    "--workers": "--concurrency", "--num-workers": "--concurrency", "--labels": "--label-map",
    "--licence": "--license",
}  # fmt: skip
FILE_FLAGS = frozenset({"--data", "--file", "--input", "--pairs", "--dataset"})  # where the file is the argument
SHORTER = (
    ("valid float range", "number"),
    ("valid integer range", "whole number"),
    (" is a file", " is a file: name a folder"),
)
INTERRUPTED = 130
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}  # errors of writing to standard output
BUG = 1
WHOLE = "requirements-judge.txt is for judging only; pip install svr-async installs everything"
MOST_CHARS = 2000  # maximum characters of an error, which may quote an endpoint or a file


class LazyGroup(click.Group):
    """A group that knows its commands' names and help, and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return the names in the order of a user's path."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"svr_async.commands.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands by sections, without importing them."""
        named = {name for names in SECTIONS.values() for name in names} | HIDDEN
        others = tuple(name for name in COMMANDS if name not in named)
        for title, names in (*SECTIONS.items(), ("More", others)):
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name, COMMANDS[name][1]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands with this prefix, for completion, without importing them."""
        from click.shell_completion import CompletionItem

        own = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return own if own and not incomplete.startswith("-") else click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command for one that does not exist."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"unknown command {args[0]!r}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", prog_name="svr")
def svr() -> None:
    """Judge preference pairs with rubrics, and learn rubrics from preference pairs.

    \b
    Try, offline and without a model:
      svr explain --judge rules --prompt "Name a prime." --a "7 is prime." --b 9
      svr eval rubricbench --sample --judge rules

    Also: sim (a simulated endpoint), merge (shards), stages, repro.
    """


def run(command: click.Command, name: str, args: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every expected error is one line on stderr."""
    try:
        return _run(command, name, args)
    except (BrokenPipeError, SystemExit) as error:
        if not _reader_has_gone(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit does not complain again
        return 0


def _require_utf8(args: Sequence[str]) -> None:
    """Raise UsageError for an argument or working folder that is not UTF-8: a manifest cannot store it."""
    with contextlib.suppress(FileNotFoundError):  # the working folder was deleted
        args = [*args, str(Path.cwd())]
    for arg in args:
        if not arg.isascii() and arg != arg.encode("utf-8", "replace").decode():
            raise UsageError(f"{arg.encode('utf-8', 'backslashreplace').decode()} is not UTF-8; rename it")


def _run(command: click.Command, name: str, args: Sequence[str] | None) -> int:
    prefix = "SVR" if name == "svr" else name.replace("-", "_").upper()
    try:
        load_dotenv()
        _require_utf8(sys.argv[1:] if args is None else args)
        result = command.main(args=args, prog_name=name, standalone_mode=False, auto_envvar_prefix=prefix)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        known = known_error(name, error)
        if known is None and os.environ.get("SVR_TRACE"):
            raise
        bug = f"a bug: {type(error).__name__}: {error} — set SVR_TRACE=1 to see where, and please report it"
        return _complain(*(known or (name, bug, BUG)))
    return result if isinstance(result, int) else 0


def known_error(name: str, error: BaseException) -> tuple[str, str, int] | None:  # noqa: PLR0911  (a table of errors)
    """Return the command, the line and the exit code of an error; None for a bug."""
    if isinstance(error, SvrError):
        return name, error.one_line(), error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message())
        return name, "", 0
    if isinstance(error, click.ClickException):
        ctx = getattr(error, "ctx", None)
        return name if ctx is None else ctx.command_path, _click_message(error), 2
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return name, "interrupted; run the same command again to continue", INTERRUPTED
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] not in {"", "svr_async"}:
        return name, f"{error.name} is not installed — {WHOLE}", 2
    if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
        return name, f"cannot write the output: {error.strerror} — make room; what was judged is kept", 5
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return name, f"a file's name is too long: {str(error.filename)[:40]}… — give a shorter one", 2
    return None


def _reader_has_gone(error: BaseException) -> bool:
    """Whether the reader of a pipe has gone: click and rich raise SystemExit for this."""
    pacified = type(sys.stdout).__name__.endswith("PacifyFlushWrapper")  # what click puts there in this case
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError) or pacified


def _complain(name: str, text: str, code: int) -> int:
    """Print an error's line, if it has one, and return its exit code."""
    if text:
        from svr_async.core.safetext import one_line

        click.echo(f"{name}: {one_line(text, MOST_CHARS)}", err=True)
    return code


def _click_message(error: click.ClickException) -> str:
    ctx = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        return f"unknown option {error.option_name} — {_cure(error, ctx)}"
    message = error.format_message().strip().rstrip(".")
    for words, ours in SHORTER:
        message = message.replace(words, ours)
    return f"{message} — {ctx.command_path} --help" if ctx is not None else message


def _cure(error: click.NoSuchOption, ctx: click.Context) -> str:
    """Return what was probably meant by an unknown option."""
    known = [name for param in ctx.command.params for name in param.opts]
    files = [param.make_metavar(ctx) for param in ctx.command.params if isinstance(param, click.Argument)]
    if error.option_name in FILE_FLAGS and files:
        return f"the file is an argument: {ctx.command_path} {files[0]}"
    meant = [MEANT[error.option_name]] if MEANT.get(error.option_name) in known else error.possibilities or ()
    return f"did you mean {meant[0]}?" if meant else f"{ctx.command_path} --help"
