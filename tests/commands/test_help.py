"""Help is short where it begins: commands by sections, the flags that matter first, the others in groups."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from rig import environment, run_python, svr_here

from svr_async.commands.main import COMMANDS, SECTIONS, svr
from svr_async.commands.options import GroupedCommand

FIRST = 12  # flags under Options, --help among them
FEW = 13  # flags up to which a command needs no groups


def commands(group: click.Group = svr, path: str = "svr") -> Iterator[tuple[str, click.Command]]:
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


def test_sections_name_commands_that_there_are_once() -> None:
    """No command stands in two sections, and each that is named exists."""
    named = [name for names in SECTIONS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= set(COMMANDS)


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`svr --help` has each of them with a line of help."""
    assert svr_here("--help") == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in shown


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


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    """`python -m svr_async` is `svr`."""
    code = "import runpy, sys; sys.argv = ['svr', '--version']; runpy.run_module('svr_async', run_name='__main__')"
    done = run_python(code, cwd=tmp_path)
    assert done.stdout.startswith("svr, version ")


def test_commands_and_flags_are_completed(tmp_path: Path) -> None:
    """What the scripts ask for is answered: commands without importing them, then a command's flags."""
    code = (
        "import sys; from svr_async.commands import main\n"
        "import atexit; atexit.register(lambda: print('loaded', 'svr_async.commands.eval.command' in sys.modules))\n"
        "sys.argv = ['svr']; main()"
    )

    def completed(words: str, place: int) -> str:
        asked = environment(_SVR_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(place))
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=asked, capture_output=True, text=True, check=False
        ).stdout

    assert completed("svr e", 1).split("\n")[:3] == ["plain,eval", "plain,explain", "loaded False"]
    assert "plain,--judge\n" in completed("svr eval --ju", 2)
