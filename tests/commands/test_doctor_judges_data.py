"""`svr doctor`, `svr judges` and `svr data`: findings, mistakes and cures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from rig import name_judge, write_bench

Cli = Callable[..., tuple[int, str, str]]


# --- doctor ----------------------------------------------------------------------------------------------------------


def test_a_healthy_place_is_all_ok(cli: Cli, tmp_path: Path) -> None:
    """Cache and data are checked, each in a line; the last one says how to check an endpoint."""
    rows = [{"id": str(n), "prompt": "Hi?", "chosen": f"a{n}", "rejected": "b"} for n in range(5)]
    (tmp_path / "pairs.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    code, out, err = cli("doctor", "--data", "pairs.jsonl")
    assert (code, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()] == ["cache", "data", "judge"]
    assert "FAIL" not in out
    assert "5 pairs" in out


def test_a_bad_cache_a_full_disk_and_bad_data_are_found(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check fails by itself, with its own exit code, and the others still run."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    (tmp_path / "bad.jsonl").write_text("{")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    code, out, _ = cli("doctor", "--cache", "cache", "--data", "bad.jsonl")
    assert code == 5
    assert out.count("FAIL") == 2
    assert "chmod o-w" in out
    (tmp_path / "cache").chmod(0o700)
    code, out, _ = cli("doctor", "--cache", "cache")
    assert (code, "free some space" in out) == (5, True)


# --- judges and data -------------------------------------------------------------------------------------------------


def test_judges_are_listed_with_key_and_price(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shipped and own profiles; whether a key is set, never the key; a price only where one was entered."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sentinel-77")
    name_judge(tmp_path, "http://127.0.0.1:8000/v1", price=[1, 0.5, 4])
    code, out, _ = cli("judges")
    assert code == 0
    for text in ("gpt-oss-120b", "rules", "recorded:PATH", "sim", "$1 / $0.50 / $4", "is set", "judges.toml"):
        assert text in out
    code, listed, _ = cli("judges", "--json")
    rows: dict[str, Any] = orjson.loads(listed)
    assert rows["gpt-4o-mini"]["key_is_set"] is True
    assert rows["deepseek-v4-flash"]["key_is_set"] is False
    assert "sk-sentinel-77" not in out + listed


def test_data_sets_are_listed_and_shown(cli: Cli, tmp_path: Path) -> None:
    """Names, licences, columns, counts and one pair; a row that is not there is named."""
    code, out, _ = cli("data", "ls")
    assert (code, "rubricbench" in out, "helpsteer3" in out) == (0, True, True)
    code, out, _ = cli("data", "ls", "--json")
    assert {row["name"] for row in orjson.loads(out)} >= {"rubricbench", "rewardbench", "rmbench", "pairs"}
    write_bench(tmp_path / "bench.jsonl", 3)
    code, out, _ = cli("data", "check", "bench.jsonl", "--format", "rubricbench", "--row", "2", "--json")
    facts = orjson.loads(out)
    assert (code, facts["pairs"], facts["pair"]["id"]) == (0, 3, "sim-test-00001")
    code, _, err = cli("data", "check", "bench.jsonl", "--format", "rubricbench", "--row", "9")
    assert (code, "--row 9" in err) == (2, True)
    code, _, err = cli("data", "check", "bench.jsonl", "--format", "rubricbnch")
    assert (code, "did you mean rubricbench" in err) == (2, True)


def test_a_text_that_would_steer_the_terminal_is_shown_harmless(cli: Cli, tmp_path: Path) -> None:
    """Escape sequences and markup of a data set are printed as text."""
    rows = [{"id": "1", "prompt": "\x1b[2J[bold]hi[/bold]\u202e", "chosen": "a\x07", "rejected": "b"}]
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    code, out, _ = cli("data", "check", "odd.jsonl")
    assert code == 0
    assert "[bold]hi[/bold]" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
