"""The `svr` group, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from svr_async.commands.dotenv import load_dotenv
from svr_async.core.files import require_utf8
from svr_async.errors import SvrError
from svr_async.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "eval": ("svr_async.commands.eval.command:evaluate", "Judge a benchmark or a file of pairs with a method."),
    "report": ("svr_async.commands.report:report", "Write a run, or several, as HTML, Markdown, LaTeX or CSV."),
    "view": ("svr_async.commands.view:view", "Open a page with every item of a run, or of two side by side."),
    "compare": ("svr_async.commands.results:compare", "Compare runs: intervals, paired tests, judge drift."),
    "gate": ("svr_async.commands.results:gate", "Exit 9 if a run is significantly worse than a baseline."),
    "merge": ("svr_async.commands.results:merge", "Merge the shards of a run."),
    "agreement": ("svr_async.commands.results:agreement", "Compare a run with labels of people."),
    "runs": ("svr_async.commands.results:runs", "List runs, the latest first."),
    "explain": ("svr_async.commands.explain:explain", "Show the signed contributions behind one decision."),
    "rank": ("svr_async.commands.rank:rank", "Rank several responses to a prompt: the best of N."),
    "pairs": ("svr_async.commands.pairs:pairs", "Make preference pairs of ranked responses."),
    "serve": ("svr_async.commands.serve:serve", "Serve rewards and rankings over HTTP, for trainers."),
    "judges": ("svr_async.commands.judges:judges", "List the judges that can be named."),
    "prices": ("svr_async.commands.prices:prices", "List what judges cost, with the day and page of each price."),
    "doctor": ("svr_async.commands.doctor.command:doctor", "Check endpoint, key, cache and data, each with a cure."),
    "data": ("svr_async.commands.data:data", "Benchmarks and training sets: where they are, what a row looks like."),
    "cache": ("svr_async.commands.cache:cache", "Look after the cache of replies."),
    "induce": ("svr_async.commands.train.stage_commands:induce", "Induce candidate rubrics from preference pairs."),
    "judge": ("svr_async.commands.train.stage_commands:judge", "Judge pools of rubrics: pairs to a feature store."),
    "fit": ("svr_async.commands.train.fit_command:fit", "Fit selector and weights on a feature store: to a bank."),
    "store": ("svr_async.commands.store:store", "Look at a feature store, or make one of your own arrays."),
    "train": ("svr_async.commands.train.command:train", "Train a bank of rubrics on preference pairs."),
    "bank": ("svr_async.commands.bank.command:bank", "Look at a bank of rubrics and care for it."),
    "batch": ("svr_async.commands.batch:batch", "Make a run's calls as a batch, at half the price."),
    "repro": ("svr_async.commands.repro:repro", "Rebuild the paper's tables beside the printed numbers."),
    "sim": ("svr_async.commands.sim:sim", "Serve the simulated judge endpoint."),
    "completion": ("svr_async.commands.completion:completion", "Print what makes your shell complete svr."),
}
SECTIONS = {
    "Begin": ("eval", "train", "explain", "rank", "pairs", "serve"),
    "Results": ("runs", "view", "report", "compare", "gate", "agreement", "merge"),
    "Judges and what they cost": ("judges", "prices", "doctor", "batch", "cache"),
    "Banks, stage by stage": ("induce", "judge", "fit", "store", "bank"),
}
OTHERS = "More"  # what no section names
INTERRUPTED = 130
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}  # what writing to standard output may meet
BUG = 1
WHOLE = "pip install svr-async brings all that training needs; with requirements-judge.txt alone only judging works"
MOST_CHARS = 2000  # of an error's line, parts of which may come from an endpoint or a file


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
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands by sections, without importing them."""
        named = {name for names in SECTIONS.values() for name in names}
        rest = tuple(name for name in COMMANDS if name not in named)
        for title, names in {**SECTIONS, OTHERS: rest}.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, without importing them."""
        from click.shell_completion import CompletionItem

        own = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return own if own and not incomplete.startswith("-") else click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command for one that does not exist."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, 1)
            ctx.fail(f"there is no command {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", prog_name="svr")
def svr() -> None:
    """Judge preference pairs with rubrics: fast, once, and without losing a call.

    \b
    Try:   svr eval rubricbench --sample --judge rules
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


def _run(command: click.Command, name: str, args: Sequence[str] | None) -> int:
    prefix = "SVR" if name == "svr" else name.replace("-", "_").upper()
    try:
        load_dotenv()
        require_utf8(sys.argv[1:] if args is None else args)
        result = command.main(args=args, prog_name=name, standalone_mode=False, auto_envvar_prefix=prefix)
    except (SvrError, click.ClickException, click.Abort, KeyboardInterrupt) as error:
        return _expected(name, error)
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"", "svr_async"} or os.environ.get("SVR_TRACE"):
            raise
        return _complain(name, f"{error.name} is not installed, which this needs — {WHOLE}", 2)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            return _complain(name, f"cannot write the output: {error.strerror} — make room; what was judged is kept", 5)
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return _complain(name, f"a file's name is too long: {str(error.filename)[:40]}… — give a shorter one", 2)
        if os.environ.get("SVR_TRACE"):
            raise
        text = f"a bug: {type(error).__name__}: {error} — set SVR_TRACE=1 to see where, and please report it"
        return _complain(name, text, BUG)
    return result if isinstance(result, int) else 0


def _expected(name: str, error: BaseException) -> int:
    if isinstance(error, SvrError):
        return _complain(name, error.one_line(), error.exit_code)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message())
        return 0
    if isinstance(error, click.ClickException):
        return _complain(_path_of(error, name), _click_message(error), 2)
    return _complain(name, "interrupted; run the same command again to go on", INTERRUPTED)


def _reader_has_gone(error: BaseException) -> bool:
    """Whether a pipe's reader left before the end: click and rich turn that into an exit of their own."""
    pacified = type(sys.stdout).__name__.endswith("PacifyFlushWrapper")  # what click puts there in this case
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError) or pacified


def _complain(name: str, text: str, code: int) -> int:
    from svr_async.core.safetext import one_line

    click.echo(f"{name}: {one_line(text, MOST_CHARS)}", err=True)
    return code


def _path_of(error: click.ClickException, name: str) -> str:
    ctx = getattr(error, "ctx", None)
    return ctx.command_path if ctx is not None else name


def _click_message(error: click.ClickException) -> str:
    message = error.format_message().strip().rstrip(".")
    message = message.replace("a valid float range", "a number").replace("a valid integer range", "a whole number")
    ctx = getattr(error, "ctx", None)
    return f"{message} — {ctx.command_path} --help" if ctx is not None else message
