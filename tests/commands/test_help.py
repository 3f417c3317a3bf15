"""Help is short where it begins: commands by sections, the flags that matter first, the others in groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from rig import run_python, svr_here

from svr_async.commands.main import COMMANDS, HIDDEN, SECTIONS, svr
from svr_async.commands.options import GroupedCommand

FIRST = 13  # flags under Options, --help among them
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


def test_an_unknown_option_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """By what it means in other tools, or by its spelling."""
    for given, near in (("--model", "--judge"), ("--juge", "--judge"), ("--output-dir", "--out")):
        assert svr_here("eval", "rubricbench", given, "x") == 2
        assert f"did you mean {near}?" in capsys.readouterr().err


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


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    """`python -m svr_async` is `svr`."""
    code = "import runpy, sys; sys.argv = ['svr', '--version']; runpy.run_module('svr_async', run_name='__main__')"
    done = run_python(code, cwd=tmp_path)
    assert done.stdout.startswith("svr, version ")
