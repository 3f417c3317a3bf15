"""The cost that a gateway reports counts as the price: `--budget` works without `--price`."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import orjson
import pytest
from aiohttp import web
from endpoint import SimServer
from rig import name_judge, serving_routes, write_bench

Cli = Callable[..., tuple[int, str, str]]
USD = 0.25
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "--method", "direct",
        "--cache", "cache", "--concurrency", "1", "-q")  # fmt: skip
LITELLM = os.environ.get("SVR_LITELLM") or shutil.which("litellm") or ""
"""The program of LiteLLM's proxy, which the last test starts where it is installed."""


@contextlib.contextmanager
def gateway(upstream: str) -> Iterator[str]:
    """Serve a gateway in front of an endpoint that reports the cost of a call as LiteLLM's does; yield its address."""

    async def forward(request: web.Request) -> web.Response:
        headers = {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{upstream}/chat/completions", data=await request.read(), headers=headers) as reply,
        ):
            headers["x-litellm-response-cost"] = str(USD)
            return web.Response(body=await reply.read(), status=reply.status, headers=headers)

    with serving_routes(web.post("/v1/chat/completions", forward)) as address:
        yield f"{address}/v1"


@contextlib.contextmanager
def litellm(upstream: str, folder: Path) -> Iterator[str]:
    """Run LiteLLM's own proxy in front of an endpoint, with a price for its model; yield its address."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    model: dict[str, str | float] = {"model": "openai/gpt-oss-120b", "api_base": upstream, "api_key": "none"}
    model |= {"input_cost_per_token": 0.001, "output_cost_per_token": 0.001}
    config = {"model_list": [{"model_name": "gpt-oss-120b", "litellm_params": model}]}
    (folder / "litellm.yaml").write_bytes(orjson.dumps(config))  # JSON is YAML
    command = [LITELLM, "--config", str(folder / "litellm.yaml"), "--port", str(port), "--host", "127.0.0.1"]
    with (folder / "litellm.log").open("wb") as log:
        env = os.environ | {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}  # loopback, for a minute
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=env)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness"):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


def check_budget(cli: Cli, folder: Path, address: str, *, usd: float) -> None:
    """A run with a budget in dollars stops in time, knows its cost, and the next run continues from the cache."""
    name_judge(folder, address)
    write_bench(folder / "bench.jsonl", 12)
    code, _, err = cli(*EVAL, "--budget", str(usd), "--out", "run")
    assert code == 4, err
    assert f"--budget ${usd:g} is reached" in err
    metrics = orjson.loads((folder / "run" / "metrics.json").read_bytes())
    assert 0 < metrics["n_total"] <= 12
    assert usd <= metrics["paid_usd"] == metrics["cost_usd"]
    code, out, err = cli(*EVAL, "--json", "--out", "run")
    assert code == 0, err
    done = orjson.loads(out)
    assert done["calls"]["cache_hits"] == metrics["calls"]["sent"]
    assert done["cost_usd"] == pytest.approx(metrics["paid_usd"] + done["paid_usd"])


def test_a_reported_cost_makes_a_budget_work(cli: Cli, tmp_path: Path, sim: SimServer) -> None:
    """Five calls at $0.25 reach $1.25; the cost stays known when the replies come from the cache."""
    with gateway(sim.base_url) as address:
        check_budget(cli, tmp_path, address, usd=5 * USD)


@pytest.mark.skipif(not LITELLM, reason="LiteLLM's proxy is not installed: set SVR_LITELLM to its program")
@pytest.mark.timeout(180)
def test_a_budget_works_behind_the_real_proxy(cli: Cli, tmp_path: Path, sim: SimServer) -> None:
    """LiteLLM reports the cost of each call, by the price in its configuration."""
    with litellm(sim.base_url, tmp_path) as address:
        check_budget(cli, tmp_path, address, usd=3.0)
