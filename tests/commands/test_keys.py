"""A refused key is told with the variable that it comes from, and whether that is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_pairs import write_made
from rig import name_judge, serving, write_bank, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.simulation.config import SimConfig

PAIR = ("--bank", "bank", "--prompt", "Why?", "--a", "So.", "--b", "Because.")
COMMANDS = (
    ("eval", "rubricbench", "--data", "bench.jsonl", "-q", "--out", "run"),
    ("train", "made.jsonl", "-q", "--out", "out"),
    ("stages", "induce", "made.jsonl", "-q", "--out", "c.jsonl"),
    ("explain", *PAIR),
    ("doctor",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_names_the_variable_of_a_refused_key(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is not set is to be set, one that is set is to be checked; exit 4 in either case."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 20)
    write_made(tmp_path / "made.jsonl")
    write_bank(tmp_path / "bank")
    monkeypatch.delenv("MY_KEY", raising=False)
    with serving(SimConfig(api_key="right")) as guarded:
        name_judge(tmp_path, guarded.base_url, key_env="MY_KEY")
        for value, says in (("", "set $MY_KEY to its key"), ("sk-wrong", "check the key in $MY_KEY: it is set")):
            monkeypatch.setenv("MY_KEY", value)
            assert run(group, "svr", [*command, "--judge", "sim"]) == 4
            told = capsys.readouterr()
            line = next(line for line in (told.out + told.err).splitlines() if "HTTP 401" in line)
            assert says in line
