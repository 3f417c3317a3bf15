"""`svr` itself: help, names, exit codes, pipes, and the promise that help is quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from rig import LAUNCHER, environment, svr

from svr_async import __version__
from svr_async.commands import eval_main
from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.errors import DegenerateFitError

HEAVY = ("aiohttp", "numpy", "pyarrow", "jax", "rich", "jinja2", "orjson", "diskcache", "tenacity")


COMMANDS_WITH_HELP = ("eval", "judges", "doctor", "data", "cache", "report", "compare", "explain")


@pytest.mark.parametrize(
    ("command", "heavy", "says"),
    [([], HEAVY, ("eval",)), *(([name], HEAVY[:6], ("Example", "Try")) for name in COMMANDS_WITH_HELP)],
)
def test_help_loads_nothing_heavy(
    command: list[str], heavy: tuple[str, ...], says: tuple[str, ...], tmp_path: Path
) -> None:
    """`svr --help` imports click and the list of commands, that of a command no library that only its work needs."""
    code = (
        f"import sys; from svr_async.commands.main import run, svr; run(svr, 'svr', {[*command, '--help']!r}); "
        f"print(sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment(), check=True
    )
    assert done.stderr.strip() == "[]"
    assert any(word in done.stdout for word in says)


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of a command and all below it."""
    if not isinstance(command, click.Group):
        return [path]
    ctx = click.Context(command)
    below = [commands(command.get_command(ctx, name) or command, (*path, name)) for name in command.list_commands(ctx)]
    return [path, *(found for part in below for found in part)]


@pytest.mark.parametrize("path", commands(group), ids=" ".join)
def test_every_command_explains_itself_with_an_example(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--help` ends with 0, says what the command does and shows at least one command to type."""
    assert run(group, "svr", [*path, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Usage: svr" in text
    assert "svr" in text.split("Usage:")[1].split("\n", 1)[1]


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """`svr --version` and `-V`."""
    for flag in ("--version", "-V"):
        assert run(group, "svr", [flag]) == 0
        assert capsys.readouterr().out.strip() == f"svr, version {__version__}"


@pytest.mark.parametrize("args", [[], ["data"], ["cache"]])
def test_a_bare_group_shows_its_help(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help is printed as help, over several lines, and nothing is an error."""
    assert run(group, "svr", args) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") > 5
    assert shown.err == ""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["evl"], "did you mean eval?"), (["zzz"], "there is no command 'zzz'"), (["eval"], "SOURCE"),
        (["eval", "pairs", "--sampel"], "--sample"), (["--frobnicate"], "--frobnicate"),
        (["eval", "pairs", "--order", "up"], "up"), (["eval", "pairs", "--audit", "2"], "audit"),
        (["eval", "pairs", "--max-calls", "-1"], "max-calls"), (["cache", "exprt"], "export"),
        (["data", "check"], "PATH"), (["eval", "pairs", "--rpm", "0"], "rpm"),
    ],
)  # fmt: skip
def test_a_slip_of_the_finger_is_one_line_and_exit_two(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown commands, flags and values: one line on stderr that names what was typed, with the nearest name."""
    assert run(group, "svr", args) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def failing(error: BaseException) -> click.Command:
    """Return a command that fails."""

    @click.command()
    def fails() -> None:
        raise error

    return fails


def test_every_error_has_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Expected errors keep their code, an interrupt is 130, and anything else is a bug, 1, in one line."""
    for error, code, says in (
        (DegenerateFitError("nothing\nto learn", hint="more pairs"), 8, "nothing to learn — more pairs"),
        (KeyboardInterrupt(), 130, "run the same command again"),
        (click.Abort(), 130, "interrupted"),
        (DegenerateFitError("\x1b[2Jthe endpoint says \u202eboo"), 8, "svr: the endpoint says boo"),
        (ZeroDivisionError("oops"), 1, "a bug: ZeroDivisionError: oops"),
    ):
        assert run(failing(error), "svr", []) == code
        shown = capsys.readouterr().err.strip()
        assert says in shown
        assert "\n" not in shown


def test_a_bug_can_be_seen_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """With SVR_TRACE=1 the exception comes through."""
    monkeypatch.setenv("SVR_TRACE", "1")
    with pytest.raises(ZeroDivisionError):
        run(failing(ZeroDivisionError()), "svr", [])


@pytest.mark.parametrize("args", ["judges --json", "data ls", "eval rubricbench --sample --method first -q", ""])
def test_a_reader_that_leaves_early_is_no_error(args: str, tmp_path: Path) -> None:
    """`svr … | head -0`: exit 0 and not a word on stderr; the run is written all the same."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), *args.split()], cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True,
        env=environment(), check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("eval" in args) == bool(list(tmp_path.glob("runs/*/report.html")))


def test_the_launcher_of_a_checkout_works(tmp_path: Path) -> None:
    """`python cli.py` is `svr`, from any folder."""
    done = svr("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, f"svr, version {__version__}")


def test_svr_eval_is_svr_eval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The installed `svr-eval` takes the same flags, reads the same variables, and names itself in errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["svr-eval", "rubricbench", "--sample", "--json"])
    monkeypatch.setenv("SVR_EVAL_METHOD", "first")
    with pytest.raises(SystemExit) as stop:
        eval_main()
    assert stop.value.code == 0
    assert '"method": "first"' in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["svr-eval", "rubricbench", "--sampel"])
    with pytest.raises(SystemExit) as stop:
        eval_main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("svr-eval: ")
