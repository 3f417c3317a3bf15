"""What the doctor makes of answers: each check's lines, and the cure that goes with them; no endpoint is asked."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import orjson
import pytest
from svr_async.judges.doctor.findings import Answer, Finding
from svr_async.judges.doctor.local import device_finding

from svr_async.engine.wires.openai import read_completion
from svr_async.errors import EndpointDownError, RefusedError
from svr_async.fit.device import devices_in_words
from svr_async.judges.doctor import findings, local


def answer(text: str | None = "ready", **changes: Any) -> Answer:
    """Return an answer with usage."""
    body = {"usage": {"prompt_tokens": 10, "completion_tokens": 2}, "system_fingerprint": "fp"}
    body = changes.get("body", body)
    read = read_completion(orjson.dumps({"choices": [{"message": {}}], **body}))
    told = {"body": body, "usage": read.usage, "fingerprint": read.fingerprint}
    return Answer(**{"text": text, "seconds": 0.5, "status": 200, "headers": {}, **told, **changes})


def refused(why: str = "HTTP 400: unknown field") -> Answer:
    """Return what an endpoint says that refuses the question."""
    return answer(None, error=RefusedError(why), refused=True, status=400)


LOST = answer(None, error=EndpointDownError("HTTP 503: busy"), status=503)


def told(found: Finding) -> tuple[str, str]:
    """Return state and line."""
    return found.state, found.line()


@pytest.mark.parametrize(
    ("url", "tls", "has_key", "state", "says"),
    [
        ("https://api.example.com/v1", "TLSv1.3, certificate until Nov 1", True, "ok", "TLSv1.3, certificate until"),
        ("http://127.0.0.1:8000/v1", "", True, "ok", "127.0.0.1:8000 answers over http"),
        ("http://gpu7:8000/v1", "", True, "ok", "over http"),
        ("http://10.0.0.4:8000/v1", "", True, "ok", "over http"),
        ("http://api.example.com/v1", "", True, "warn", "in the clear — use https"),
        ("http://api.example.com/v1", "", False, "ok", "over http"),
    ],
)
def test_a_key_in_the_clear_is_warned_about(url: str, tls: str, has_key: bool, state: str, says: str) -> None:
    """Only where a key leaves this machine and its network without encryption."""
    found = told(findings.transport_finding(url, tls, has_key=has_key))
    assert (found[0], says in found[1]) == (state, True), found


def test_a_model_that_is_not_listed_has_its_nearest_name() -> None:
    """Listed is ok; not listed fails with exit 4 and near names, or is a warning where it answers all the same."""
    names = ["gpt-oss-120b", "gpt-oss-20b"]
    assert told(findings.model_finding("gpt-oss-20b", names, answers=True))[0] == "ok"
    missing = findings.model_finding("gpt-oss-120", names, answers=False)
    assert (missing.state, missing.exit_code, missing.cure) == ("fail", 4, "did you mean gpt-oss-120b?")
    assert findings.model_finding("alias", names, answers=True).state == "warn"
    assert findings.model_finding("m", None, answers=True).state == "none"
    many = findings.model_finding("m", [f"model-{number}" for number in range(200)], answers=True)
    assert (len(many.text) < 500, "(200 models)" in many.text) == (True, True)


def test_latency_is_told_as_quantiles_and_a_slow_endpoint_is_warned_about() -> None:
    """Half and nine tenths of the equal calls; half a minute for a word is slow."""
    quick = findings.latency_finding([answer(seconds=one) for one in (0.1, 0.3, 0.2)])
    assert told(quick) == ("ok", "p50 0.20 s, p90 0.30 s over 3 small answers")
    slow = findings.latency_finding([answer(seconds=31.0)])
    assert (slow.state, "--concurrency" in slow.cure) == ("warn", True)
    assert findings.latency_finding([LOST]).state == "none"


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -1, "completion_tokens": 1}, {"prompt_tokens": True}, 7])
def test_an_endpoint_without_sound_token_counts_is_warned_about(usage: Any) -> None:
    """Costs cannot be told then; the cure names the cap that still works."""
    found = findings.usage_finding(answer(body={"usage": usage}))
    assert (found.state, "--max-calls" in found.cure) == ("warn", True)
    assert findings.usage_finding(answer()).state == "ok"


def test_limits_in_the_headers_become_lines_for_the_profile() -> None:
    """What is not in the profile, or higher there, is the cure; garbage is no limit."""
    headers = {
        "x-ratelimit-limit-requests": "600",
        "x-ratelimit-remaining-requests": "599",
        "x-ratelimit-limit-tokens": "90000",
    }
    found = findings.limits_finding(answer(headers=headers), None, 50_000)
    assert found.text == "600 requests a minute (599 left), 90,000 tokens a minute (? left)"
    assert found.cure.startswith("rpm = 600 in judges.toml")
    assert findings.limits_finding(answer(headers=headers), 600, 90_000).cure == ""
    none = findings.limits_finding(answer(headers={"x-ratelimit-limit-requests": "inf"}), 60, None)
    assert none.text == "none in the headers; the profile has rpm = 60"


def test_structured_output_is_honoured_ignored_or_refused() -> None:
    """A schema is honoured only where the answer keeps to it; each outcome has its own words and cure."""
    choices = ("A", "B")
    for text, state in (('{"verdict": "B"}', "ok"), ('{"verdict": "C"}', "warn"), ('{"verdict": "B", "x": 1}', "warn")):
        assert findings.schema_finding(answer(text), choices).state == state
    assert "accepted but ignored" in findings.schema_finding(answer("It is B."), choices).text
    assert "refused: HTTP 400: unknown field" in findings.schema_finding(refused(), choices).text
    assert findings.schema_finding(LOST, choices).state == "none"
    assert findings.object_finding(answer("{}"), "none").cure == 'structured = "json_object" in judges.toml uses it'
    assert findings.object_finding(answer("{}"), "json_object").cure == ""
    assert 'structured = "none"' in findings.object_finding(refused(), "json_object").cure
    assert findings.object_finding(answer("no"), "none").state == "warn"


def test_a_system_message_is_told_by_its_tokens() -> None:
    """Some sixty more tokens are read, none are dropped; a refusal is a warning, silence tells nothing."""
    alone = answer()
    longer = answer(body={"usage": {"prompt_tokens": 70, "completion_tokens": 2}})
    assert findings.system_finding(longer, alone).state == "ok"
    dropped = findings.system_finding(answer(), alone)
    assert (dropped.state, "10 tokens in with it, 10 without" in dropped.text) == ("warn", True)
    assert 'system_role = "user"' in findings.system_finding(refused("System role not supported"), alone).cure
    assert findings.system_finding(LOST, alone).state == "none"
    assert findings.system_finding(answer(body={}), alone).state == "none"


def test_effort_and_seed_are_accepted_or_refused() -> None:
    """A refused effort names the setting that leaves it out, where the profile sends it."""
    usage = {"completion_tokens_details": {"reasoning_tokens": 7}}
    assert "7 tokens of reasoning" in findings.effort_finding(answer(body={"usage": usage}), "field").text
    assert 'effort_style = "none"' in findings.effort_finding(refused(), "field").cure
    assert findings.effort_finding(refused(), "none").state == "warn"
    assert (findings.seed_finding(answer()).state, findings.seed_finding(refused()).state) == ("ok", "warn")


def test_equal_calls_are_compared_by_answer_and_fingerprint() -> None:
    """Different answers to equal calls are a warning, one answer is nothing to compare."""
    assert told(findings.same_finding([answer(), answer()])) == ("ok", "2 equal calls, equal answers (fingerprint fp)")
    assert findings.same_finding([answer("a"), answer("b"), LOST]).state == "warn"
    assert findings.same_finding([answer(), LOST]).state == "none"


def test_the_prefix_cache_is_told_by_the_second_call() -> None:
    """Tokens from the cache, none, or not said; both places where endpoints say it."""
    for usage, state in (
        ({"prompt_tokens": 1290, "prompt_tokens_details": {"cached_tokens": 1280}}, "ok"),
        ({"prompt_tokens": 1290, "cached_tokens": 64}, "ok"),
        ({"prompt_tokens": 1290, "prompt_tokens_details": {"cached_tokens": 0}}, "warn"),
        ({"prompt_tokens": 1290}, "none"),
    ):
        assert findings.prefix_finding(answer(body={"usage": usage})).state == state
    assert findings.prefix_finding(LOST).state == "none"


def test_the_shorter_context_wins() -> None:
    """An endpoint that takes less than the profile says is a warning with the line to enter."""
    short = findings.context_finding({"max_model_len": 8192}, 131_072)
    assert (short.state, short.cure) == ("warn", "context_tokens = 8192 in judges.toml")
    assert findings.context_finding({"context_length": 200_000}, 131_072).state == "ok"
    assert findings.context_finding({"context_length": "many"}, 0).state == "none"


def test_clocks_may_differ_by_half_a_minute() -> None:
    """More than that is a warning; without a date nothing is said."""
    at = answer(asked_at=1000.0, seconds=2.0)
    assert told(findings.clock_finding(at, 1002.0)) == ("ok", "within a few seconds of ours")
    assert told(findings.clock_finding(at, 1021.0)) == ("ok", "20 s ahead of ours")
    late = findings.clock_finding(at, 900.0)
    assert (late.state, "101 s behind ours" in late.text) == ("warn", True)
    assert findings.clock_finding(at, None).state == "none"


def test_calls_without_an_answer_are_counted() -> None:
    """Refusals of a setting are no faults of the line."""
    assert findings.steadiness_finding([answer(), refused()]) == []
    (found,) = findings.steadiness_finding([answer(), LOST, LOST])
    assert told(found)[1].startswith("2 of 3 calls got no answer: HTTP 503: busy — ")


# --- this machine -----------------------------------------------------------------------------------------------------


def test_the_device_is_said() -> None:
    """JAX's platform, its devices and its version, and whether it can reach NVIDIA GPUs."""
    found = device_finding(devices_in_words)
    assert re.match(r"cpu: \d devices? \(cpu\), jax [\d.]+, (without CUDA|jax-cuda1\d-plugin)", found.text)
    assert found.state in {"ok", "warn"}


def test_a_gpu_that_jax_cannot_reach_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An NVIDIA device file is a warning with the extra to install; with CUDA there, what keeps JAX from the GPU."""
    told = "cpu: 1 device (cpu), jax 0.10.2"
    assert device_finding(lambda: told, tmp_path).state == "ok"
    (tmp_path / "nvidiactl").touch()
    (tmp_path / "nvidia3").touch()
    monkeypatch.setattr(local, "version", _no_package)
    found = device_finding(lambda: told, tmp_path)
    assert (found.state, "svr-async[gpu]" in found.cure) == ("warn", True)
    monkeypatch.setattr(local, "version", lambda _: "0.10.2")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    found = device_finding(lambda: told, tmp_path)
    assert "jax-cuda13-plugin 0.10.2" in found.text
    assert found.cure == "JAX_PLATFORMS=cpu keeps JAX from it"
    assert device_finding(lambda: "gpu: 1 device (H100), jax 0.10.2", tmp_path).state == "ok"


def _no_package(name: str) -> str:
    raise PackageNotFoundError(name)
