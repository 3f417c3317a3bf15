"""`svr doctor --judge`: the simulated endpoint with faults of all kinds, and one that passes every check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from endpoint import SimConfig
from rig import name_judge, serving, serving_routes, verdict

from svr_async.judges.doctor import MAX_TOKENS

Cli = Callable[..., tuple[int, str, str]]
Rows = dict[str, dict[str, Any]]


@contextmanager
def good_endpoint(bodies: list[dict[str, Any]]) -> Iterator[str]:
    """Serve an endpoint with JSON mode and a rate limit; `bodies` are the requests that it gets."""

    async def chat(http: web.Request) -> web.Response:
        body = orjson.loads(await http.read())
        bodies.append(body)
        content = body["messages"][-1]["content"]
        text = f"Candidate A is right.\n{verdict(content, 'A')}" if "[[A" in content else "ready"
        text = '{"verdict": "B"}' if "response_format" in body else text
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        reply = {"id": "1", "model": body["model"], "choices": [choice]}
        reply["usage"] = {"prompt_tokens": 40, "completion_tokens": 3}
        return web.json_response(reply, headers={"x-ratelimit-limit-requests": "60"})

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "odd"}]})

    with serving_routes(web.post("/v1/chat/completions", chat), web.get("/v1/models", models)) as address:
        yield f"{address}/v1"


def examined(cli: Cli, *args: str | Path) -> tuple[int, Rows]:
    """Return exit code and rows by check."""
    code, out, err = cli("doctor", *args, "--json")
    assert err == ""
    return code, {row["check"]: row for row in orjson.loads(out)}


def test_a_good_endpoint_passes_every_check_in_a_few_capped_calls(cli: Cli, tmp_path: Path) -> None:
    """The hint of an ok line names a setting that the profile could use."""
    bodies: list[dict[str, Any]] = []
    with good_endpoint(bodies) as base_url:
        name_judge(tmp_path, base_url, model="odd", price=[1, 0.5, 4])
        code, rows = examined(cli, "--judge", "sim")
    assert [body["max_tokens"] for body in bodies] == [MAX_TOKENS] * 4
    assert code == 0
    assert list(rows) == ["cache", "judge", "model", "key", "latency", "json", "limits", "verdict"]
    assert {row["state"] for row in rows.values()} == {"ok"}
    assert rows["limits"]["hint"].startswith("rpm = 60 in judges.toml")
    assert rows["json"]["hint"] == 'structured = "json_schema" in judges.toml uses it'


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
