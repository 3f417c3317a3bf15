"""`svr` itself: help by sections and groups, names, exit codes, pipes, and quick help."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from rig import LAUNCHER, environment, run_python, svr, svr_here

from svr_async import __version__
from svr_async.commands import eval_main
from svr_async.commands.main import COMMANDS, HIDDEN, SECTIONS, run
from svr_async.commands.main import svr as group
from svr_async.commands.options import GroupedCommand
from svr_async.errors import DegenerateFitError

HEAVY = ("aiohttp", "numpy", "pyarrow", "jax", "rich", "jinja2", "orjson", "diskcache", "tenacity")


FIRST = 13  # flags under Options, --help among them
FEW = 13  # flags up to which a command needs no groups


def commands(group: click.Group = group, path: str = "svr") -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group with its path."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


ALL = dict(commands())


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


@pytest.mark.parametrize("path", ALL)
def test_every_command_explains_itself_with_an_example(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` ends with 0, says what the command does and shows at least one command to type."""
    assert run(group, "svr", [*path.split()[1:], "--help"]) == 0
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


# --- help ---


def test_there_are_few_commands_and_options() -> None:
    """At most 40 commands with 350 options; about 18 on the first screen."""
    options = [param for command in ALL.values() for param in command.params if isinstance(param, click.Option)]
    assert len(ALL) <= 40
    assert len(options) <= 350
    assert len(COMMANDS) - len(HIDDEN) <= 20


def test_help_is_plain() -> None:
    """Each option has help, and a metavar in words where it takes a value: never the name of Click's type."""
    for path, command in ALL.items():
        for param in command.params:
            if isinstance(param, click.Option) and not param.is_flag:
                assert param.help, (path, param.name)
                assert param.metavar or isinstance(param.type, click.Choice), (path, param.name)


def test_sections_name_the_visible_commands_once(capsys: pytest.CaptureFixture[str]) -> None:
    """`svr --help` has each of them with a line of help; rare ones are hidden."""
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted([*named, *HIDDEN]) == sorted(COMMANDS)
    assert svr_here("--help") == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert (f"\n  {name} " in shown) is (name not in HIDDEN)


@pytest.mark.parametrize("path", ALL)
def test_few_flags_stand_first_and_none_is_lost(path: str) -> None:
    """A command with many flags shows them in groups, each flag once, about ten of them first."""
    command = ALL[path]
    flags = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    if len(flags) <= FEW:
        return
    assert isinstance(command, GroupedCommand)
    sections = list(command.sections(click.Context(command)))
    shown = [name for _, rows in sections for name, _ in rows if not name.endswith("help")]  # which is Click's own
    assert sorted(shown) == sorted(str(flag.name) for flag in flags)
    assert sections[0][0] == "Options"
    assert len(sections[0][1]) <= FIRST


def test_every_seed_is_a_number() -> None:
    """`--seed` takes a whole number wherever it stands."""
    seeds = [param for command in ALL.values() for param in command.params if "--seed" in param.opts]
    assert len(seeds) > 3
    assert all(isinstance(param.type, click.types.IntParamType) for param in seeds)


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    """`python -m svr_async` is `svr`."""
    code = "import runpy, sys; sys.argv = ['svr', '--version']; runpy.run_module('svr_async', run_name='__main__')"
    done = run_python(code, cwd=tmp_path)
    assert done.stdout.startswith("svr, version ")
