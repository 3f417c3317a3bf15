"""`svr doctor --judge`: the simulated endpoint with faults of all kinds, and a small odd one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from odd_endpoint import odd_endpoint
from rig import name_judge, serving

from svr_async.judges.doctor import MAX_TOKENS
from svr_async.simulation.config import SimConfig

Cli = Callable[..., tuple[int, str, str]]
Rows = dict[str, dict[str, Any]]


def examined(cli: Cli, *args: str | Path) -> tuple[int, Rows]:
    """Return exit code and rows by check."""
    code, out, err = cli("doctor", *args, "--json")
    assert err == ""
    return code, {row["check"]: row for row in orjson.loads(out)}


def test_a_good_endpoint_passes_every_check_in_a_few_capped_calls(cli: Cli, tmp_path: Path) -> None:
    """Each setting that the profile could use is the cure of an ok line."""
    with odd_endpoint(headers={"x-ratelimit-limit-requests": "60"}) as odd:
        name_judge(tmp_path, odd.base_url, model="odd", price=[1, 0.5, 4])
        code, rows = examined(cli, "--judge", "sim")
        assert len(odd.bodies) == 4
        assert {body["max_tokens"] for body in odd.bodies} == {MAX_TOKENS}
    assert code == 0
    assert list(rows) == ["cache", "device", "judge", "model", "context", "key", "latency", "json", "limits", "verdict"]
    assert {row["state"] for row in rows.values()} == {"ok"}
    assert rows["limits"]["hint"].startswith("rpm = 60 in judges.toml")
    assert rows["json"]["hint"] == 'structured = "json_schema" in judges.toml uses it'
    assert rows["context"]["detail"] == "4,096 tokens"


@pytest.mark.parametrize(
    ("config", "model", "code", "check", "says"),
    [
        (SimConfig(api_key="right"), "gpt-oss-20b", 4, "key", "HTTP 401"),
        (SimConfig(context_tokens=4), "gpt-oss-20b", 4, "answer", "maximum context length"),
        (SimConfig(quota=0), "gpt-oss-20b", 4, "answer", "quota"),
        (SimConfig(fault_rate=1.0, faults=("500",)), "gpt-oss-20b", 6, "answer", "HTTP 500"),
    ],
)
def test_a_failure_is_one_line_with_its_exit_code(
    cli: Cli, config: SimConfig, model: str, code: int, check: str, says: str
) -> None:
    """Nothing is asked after it, and it says what to do."""
    with serving(config) as sim:
        found, out, _ = cli("doctor", "--judge", f"{sim.base_url}#{model}")
        assert sim.stats()["calls"] <= 3
    line = next(line for line in out.splitlines() if line.startswith("FAIL"))
    assert (found, line.split()[1], says in line, " — " in line) == (code, check, True, True), out
    assert out.count("FAIL") == 1


def test_an_unknown_model_judge_or_address(cli: Cli) -> None:
    """A near name of the model, exit 4; of the judge, exit 2; nothing listens, exit 6."""
    with serving() as sim:
        code, rows = examined(cli, "--judge", f"{sim.base_url}#gpt-oss-21b")
    assert (code, "did you mean gpt-oss-" in rows["model"]["hint"]) == (4, True)
    code, rows = examined(cli, "--judge", "gpt-oss-12b")
    assert (code, "did you mean gpt-oss-120b" in rows["judge"]["hint"]) == (2, True)
    code, rows = examined(cli, "--judge", "http://127.0.0.1:9/v1#m")
    assert (code, rows["answer"]["state"]) == (6, "fail")
    assert re.search("annot connect to .*127.0.0.1:9", rows["answer"]["detail"])
