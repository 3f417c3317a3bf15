"""docs/commands.md: every command with what it prints as JSON and how it may end, held against the commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_pairs import write_made
from rig import RULES, svr_here
from test_main import ALL

from svr_async import errors
from svr_async.engine.cache import Cache

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
ROW = re.compile(r"^\| `([a-z ]+)` \| (.*) \| ([\d ]*)\|$", re.MULTILINE)
ROWS = {name: (printed, codes.split()) for name, printed, codes in ROW.findall(PAGE)}
CACHE = ("--cache", "cache")
PLAN = re.search(r"print the plan instead:\n`(.*?)`", PAGE, re.DOTALL)


def keys_of(name: str) -> list[str]:
    """Return the keys that the page names first for a command."""
    return re.findall(r"\w+", re.findall(r"`([^`]*)`", ROWS[name][0])[0])


def test_every_command_has_a_row() -> None:
    """The page names every command and no other."""
    assert {f"svr {name}" for name in ROWS} == set(ALL)


def test_exit_codes_are_those_that_errors_have() -> None:
    """The table names each code of an error once, and rows use no other."""
    table = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.SvrError)]
    assert {kind.exit_code for kind in kinds} | {0} == table
    assert {int(code) for _, codes in ROWS.values() for code in codes} <= table | {129, 130, 143}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make pairs, two runs and a store for commands to print."""
    place = tmp_path_factory.mktemp("printed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_made(place / "made.jsonl", 60)
        for method in ("direct", "longest"):
            assert (
                svr_here("eval", "pairs", "--data", "made.jsonl", *RULES, "--method", method, "-q", "--out", method)
                == 0
            )
        assert svr_here("stages", "induce", "made.jsonl", *RULES, "--out", "c.jsonl", "-q") == 0
        words = ("--candidates", "c.jsonl", "--out", "store", "-q")
        assert svr_here("stages", "judge", "made.jsonl", *RULES, *words) == 0
        groups = b'{"prompt": "Say it in one sentence.", "responses": ["One. Two. Three.", "One."]}'
        (place / "groups.jsonl").write_bytes(groups)
        assert svr_here("rank", "groups.jsonl", *RULES, "--out", "ranked.jsonl") == 0
        Cache.open(place / "cache").close()
        assert svr_here("cache", "export", "cache.gz", *CACHE) == 0
    return place


COMMANDS: list[tuple[str, ...]] = [
    ("eval", "pairs", "--data", "made.jsonl", *RULES, "-q", "--limit", "2", "--out", "few"),
    ("explain", "direct", "made-1"), ("compare", "direct", "longest"), ("gate", "direct", "direct"), ("runs", "."),
    ("report", "direct"), ("doctor", *CACHE), ("data ls",), ("data check", "made.jsonl"),
    ("data split", "made.jsonl", "--out", "sides"),
    ("data contamination", "made.jsonl", "--against", "pairs=made.jsonl"), ("cache stats", *CACHE),
    ("cache export", "other.gz", *CACHE), ("cache import", "cache.gz", *CACHE),
    ("cache clear", "--older-than", "900d", "--yes", *CACHE),
    ("stages induce", "made.jsonl", *RULES, "-q", "--out", "d.jsonl"), ("stages store", "store"),
    ("rank", "--prompt", "x", *RULES, "a", "b"),
    ("stages judge", "made.jsonl", *RULES, "-q", "--candidates", "c.jsonl", "--out", "store"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_json_has_the_keys_that_the_page_names(
    command: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands in a row is in what the command prints: in the object, or in each of a list."""
    monkeypatch.chdir(folder)
    name, *rest = command
    assert svr_here(*name.split(), *rest, "--json") == 0
    printed: Any = orjson.loads(capsys.readouterr().out)
    assert printed
    for one in printed if isinstance(printed, list) else [printed]:
        assert set(keys_of(name)) <= one.keys()


def test_a_plan_has_the_keys_that_the_page_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--dry-run --json` of eval and train print calls, tokens and dollars under these names."""
    monkeypatch.chdir(folder)
    assert PLAN is not None
    asked = ("--judge", "http://127.0.0.1:9/v1#m", "--dry-run", "--json")
    for words in (("eval", "pairs", "--data", "made.jsonl"), ("train", "made.jsonl", "--out", "none")):
        assert svr_here(*words, *asked) == 0
        assert set(re.findall(r"\w+", PLAN[1])) <= orjson.loads(capsys.readouterr().out).keys()
