"""`svr repro`: what it names without sending, and the lines that it says to wrong input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from endpoint import SimServer
from rig import write_bank, write_bench

Cli = Callable[..., tuple[int, str, str]]


def test_a_figure_is_built_with_one_command(cli: Cli, sim: SimServer, tmp_path: Path) -> None:
    """The dry run counts calls by table, and the command sends exactly these."""
    write_bench(tmp_path / "rubricbench.jsonl", 4)
    write_bank(tmp_path / "bank")
    same = [
        "repro",
        "error_overlap",
        "--data",
        tmp_path,
        "--bank",
        "bank",
        "--base-url",
        sim.base_url,
        "--cache",
        "cache",
    ]
    code, out, _ = cli(*same, "--dry-run", "--json")
    named = orjson.loads(out)
    assert (code, named["total"]["calls"]) == (0, named["tables"]["tab:error_overlap"]["calls"])
    assert not (tmp_path / "runs").exists()
    code, out, _ = cli(*same, "--json")
    done = orjson.loads(out)
    assert (code, done["calls"], done["absent"]) == (0, named["total"]["calls"], 0)
    code, out, err = cli(*same)
    assert (code, "0 calls sent: runs/repro/report.html" in out) == (0, True)
    assert "run 1 of 2: rubricbench-svr-full-oss" in err


def test_without_a_table_they_are_listed(cli: Cli) -> None:
    """Each line has the name that the command takes, the paper's label and the title."""
    code, out, _ = cli("repro")
    assert code == 0
    assert "rubricbench           tab:rubricbench" in out


def test_missing_files_are_named_with_the_command_that_gets_them(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table 1 without training pairs says how to fetch HelpSteer3, and the dry run needs no endpoint."""
    write_bench(tmp_path / "rubricbench.jsonl", 4)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)  # it asks the public hub otherwise
    monkeypatch.setenv("OPENROUTER_API_KEY", "")
    flags = ["rubricbench", "--train", "helpsteer3", "--data", tmp_path, "--judge", "http://127.0.0.1:9/v1#m"]
    code, out, _ = cli("repro", *flags, "--dry-run")
    assert code == 0
    assert "svr data fetch helpsteer3, or --train helpsteer3=PATH" in out
    code, out, _ = cli("repro", *flags, "--dry-run", "--json")
    assert orjson.loads(out)["parts"]["rubricbench-direct-oss"]["calls"] > 0
