"""`svr doctor --judge` at real endpoints: the simulated one with faults of all kinds, and a small odd one."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from odd_endpoint import odd_endpoint
from rig import name_judge, serving, svr

from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig

CERTIFICATE = Path(__file__).with_name("self_signed.pem")  # of 127.0.0.1 until 2049, with its key
Cli = Callable[..., tuple[int, str, str]]
Rows = dict[str, dict[str, Any]]


def examined(cli: Cli, *args: str | Path) -> tuple[int, Rows]:
    """Return exit code and rows by check."""
    code, out, err = cli("doctor", *args, "--json")
    assert err == ""
    return code, {row["check"]: row for row in orjson.loads(out)}


def test_a_good_endpoint_passes_every_check(cli: Cli, tmp_path: Path) -> None:
    """All that can be told is told; what the profile could use is the cure of an ok line."""
    with odd_endpoint(headers={"x-ratelimit-limit-requests": "60"}) as odd:
        name_judge(tmp_path, odd.base_url, model="odd", price=[1, 0.5, 4])
        code, rows = examined(cli, "--judge", "sim")
    assert code == 0
    assert {name: row["state"] for name, row in rows.items() if row["state"] != "ok"} == {}
    assert rows["limits"]["cure"].startswith("rpm = 60 in judges.toml")
    assert rows["object"]["cure"] == 'structured = "json_object" in judges.toml uses it'
    assert "came from the cache the second time" in rows["prefix"]["detail"]
    assert rows["context"]["detail"] == "4,096 tokens"
    assert rows["calls"]["detail"].startswith("11 made, ")
    assert "$0." in rows["calls"]["detail"]


def test_the_number_of_calls_and_their_price_are_said_before(cli: Cli, tmp_path: Path) -> None:
    """On standard error, before anything is sent; --max-calls is kept, and what it leaves out is named."""
    for cap, most in ((12, 12), (5, 5), (2, 2), (1, 1), (0, 0)):
        with odd_endpoint() as odd:
            name_judge(tmp_path, odd.base_url, model="odd", price=[1, 0.5, 4])
            code, out, err = cli("doctor", "--judge", "sim", "--max-calls", str(cap))
            assert code == 0
            assert f"at most {most} calls" in err
            assert "about $0.0" in err
            assert len(odd.bodies) <= cap
            assert ("a higher --max-calls finds out about" in out) == (cap < 12)


def test_what_an_endpoint_does_not_honour_is_a_warning(cli: Cli) -> None:
    """No structured output, no usage, no list of models, no cache: warnings or unknown, exit 0."""
    with odd_endpoint(honours=frozenset(), models=None) as odd:
        code, rows = examined(cli, "--judge", f"{odd.base_url}#odd")
    assert code == 0
    states = {name: row["state"] for name, row in rows.items()}
    assert [states[name] for name in ("schema", "object", "usage")] == ["warn"] * 3
    assert states["system"] == "none"  # without usage nobody can tell
    assert [states[name] for name in ("models", "prefix", "context")] == ["none"] * 3
    assert states["verdict"] == "ok"


def test_a_setting_that_a_run_leaves_out_is_a_warning(cli: Cli, tmp_path: Path) -> None:
    """What is refused is told with the line that says so for good; all else is examined without it."""
    with odd_endpoint(refuses=frozenset({"reasoning_effort", "seed", "response_format"})) as odd:
        name_judge(tmp_path, odd.base_url, model="odd", reasoning_effort="high", effort_style="field")
        code, rows = examined(cli, "--judge", "sim")
    assert code == 0
    assert "unknown field reasoning_effort" in rows["settings"]["detail"]
    assert 'effort_style = "none" in judges.toml' in rows["settings"]["cure"]
    with serving(SimConfig(reasoning=True)) as server:
        name_judge(tmp_path, server.base_url)
        code, rows = examined(cli, "--judge", "sim")
    assert code == 0
    for setting in ('max_tokens_field = "max_completion_tokens"', 'temperature = "unset"', 'top_p = "unset"'):
        assert setting in rows["settings"]["cure"]
    assert rows["verdict"]["state"] == "ok"


def test_settings_that_are_refused_are_told_from_an_endpoint_that_refuses_all(cli: Cli, tmp_path: Path) -> None:
    """With a field that is none of ours every call would fail: exit 4, and the cure names what can be left out."""
    with odd_endpoint(refuses=frozenset({"tier"})) as odd:
        name_judge(tmp_path, odd.base_url, model="odd")
        with (tmp_path / "judges.toml").open("a") as file:
            file.write("extra_body = { tier = 1 }\n")
        code, rows = examined(cli, "--judge", "sim")
    assert code == 4
    assert "unknown field tier" in rows["settings"]["detail"]
    assert 'temperature = "unset"' in rows["settings"]["cure"]
    assert "extra_body" in rows["settings"]["cure"]


def test_refused_extras_are_warnings_with_the_endpoints_own_words(cli: Cli) -> None:
    """Seed, effort and both forms of structured output, each refused with a 400."""
    with odd_endpoint(refuses=frozenset({"reasoning_effort", "seed", "response_format"})) as odd:
        code, rows = examined(cli, "--judge", f"{odd.base_url}#odd")
    assert code == 0
    for name, field in (
        ("seed", "seed"),
        ("effort", "reasoning_effort"),
        ("schema", "response_format"),
        ("object", "response_format"),
    ):
        assert (rows[name]["state"], f"unknown field {field}" in rows[name]["detail"]) == ("warn", True)


@pytest.mark.parametrize(("kind", "says"), [("honours", "is dropped"), ("refuses", "System role not supported")])
def test_a_system_message_that_does_not_count_is_a_warning(cli: Cli, tmp_path: Path, kind: str, says: str) -> None:
    """Dropped without a word, or refused: the cure is the setting that puts it into the user's, and it is one."""
    behaviour = {"honours": frozenset({"usage"})} if kind == "honours" else {"refuses": frozenset({"system"})}
    with odd_endpoint(**behaviour) as odd:
        name_judge(tmp_path, odd.base_url, model="odd")
        _, rows = examined(cli, "--judge", "sim")
        name_judge(tmp_path, odd.base_url, model="odd", system_role="user")
        _, mended = examined(cli, "--judge", "sim")
    assert (rows["system"]["state"], says in rows["system"]["detail"]) == ("warn", True)
    assert 'system_role = "user"' in rows["system"]["cure"]
    assert mended["system"]["state"] == "ok"


def test_a_short_rate_limit_is_waited_for_within_the_cap(cli: Cli) -> None:
    """One 429 costs one more call; with no call to spare it is a failure that says so."""
    with odd_endpoint(limited=1) as odd:
        code, rows = examined(cli, "--judge", f"{odd.base_url}#odd")
        assert (code, rows["calls"]["detail"].split()[0], len(odd.bodies)) == (0, "12", 12)
    with odd_endpoint(limited=1) as odd:
        code, rows = examined(cli, "--judge", f"{odd.base_url}#odd", "--max-calls", "1")
        assert (code, "rate limited" in rows["answer"]["detail"], len(odd.bodies)) == (4, True, 1)


def test_every_endpoint_of_a_judge_is_looked_at(cli: Cli) -> None:
    """The further ones are asked once each: one answers, one does not serve the model, one is not there."""
    with odd_endpoint() as odd, odd_endpoint() as other, odd_endpoint(models=[{"id": "x"}]) as wrong:
        urls = (odd.base_url, other.base_url, wrong.base_url, "http://127.0.0.1:9/v1")
        code, out, _ = cli("doctor", "--judge", "odd", "--base-url", ",".join(urls))
        assert (len(other.bodies), len(wrong.bodies)) == (1, 0)
    lines = [line for line in out.splitlines() if line.split()[1] == "other"]
    assert [line.split()[0] for line in lines] == ["ok", "FAIL", "FAIL"]
    assert ("does not list the model" in lines[1], "cannot connect" in lines[2], code) == (True, True, 4)


# --- the simulated endpoint -------------------------------------------------------------------------------------------


def test_a_simulated_endpoint_is_said_to_be_one(cli: Cli) -> None:
    """The verdict's line has the label; the simulation ignores structured output, which is a warning."""
    config = SimConfig(rpm=6000, tpm=10_000_000, prefix_blocks=4096)
    with serving(config) as sim:
        code, rows = examined(cli, "--judge", "gpt-oss-20b", "--base-url", sim.base_url)
        assert sim.stats()["paid"] <= 12
    assert code == 0
    assert rows["verdict"]["detail"].endswith("(SIMULATED endpoint)")
    assert "6,000 requests a minute" in rows["limits"]["detail"]
    assert rows["schema"]["state"] == "warn"
    assert rows["prefix"]["state"] == "ok"
    assert "$OPENAI_API_KEY is not set" in rows["judge"]["detail"]


def test_usage_that_makes_no_sense_counts_as_none(cli: Cli) -> None:
    """Negative or absurd token counts are no counts."""
    with serving(SimConfig(faults=FaultConfig(rate=1.0, kinds=("bad-usage",), max_faulty_attempts=99))) as sim:
        code, rows = examined(cli, "--judge", f"{sim.base_url}#gpt-oss-20b")
    assert (code, rows["usage"]["state"]) == (0, "warn")


@pytest.mark.parametrize(
    ("config", "model", "code", "check", "says"),
    [
        (SimConfig(api_key="right"), "gpt-oss-20b", 4, "key", "HTTP 401"),
        (SimConfig(), "gpt-oss-21b", 4, "models", "gpt-oss-21b is not among the models listed"),
        (SimConfig(context_tokens=4), "gpt-oss-20b", 4, "answer", "maximum context length"),
        (SimConfig(faults=FaultConfig(rate=1.0, kinds=("insufficient-quota",))), "gpt-oss-20b", 4, "answer", "quota"),
        (SimConfig(faults=FaultConfig(rate=1.0, kinds=("503",))), "gpt-oss-20b", 6, "answer", "HTTP 503"),
        (SimConfig(faults=FaultConfig(rate=1.0, kinds=("html",))), "gpt-oss-20b", 6, "answer", "not JSON"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_one_line_with_a_cure(
    cli: Cli, config: SimConfig, model: str, code: int, check: str, says: str
) -> None:
    """The exit code is that of the failure, further questions are not asked, and the cure is there."""
    with serving(config) as sim:
        found, out, _ = cli("doctor", "--judge", f"{sim.base_url}#{model}")
        assert sim.stats()["calls"] <= 2
    line = next(line for line in out.splitlines() if line.startswith("FAIL"))
    assert (found, line.split()[1], says in line, " — " in line) == (code, check, True, True), out
    assert out.count("FAIL") == 1


def test_an_endpoint_that_loses_calls_is_unsteady(cli: Cli) -> None:
    """Calls without an answer are counted and told; what they would have shown is unknown, not wrong."""
    with odd_endpoint(busy=frozenset({6, 9})) as odd:
        code, rows = examined(cli, "--judge", f"{odd.base_url}#odd")
    assert (code, rows["steady"]["state"]) == (0, "warn")
    assert rows["steady"]["detail"] == "2 of 10 calls got no answer: HTTP 503: busy"
    assert [name for name, row in rows.items() if row["state"] == "none"] == ["schema", "seed"]


def test_encryption_is_told_and_what_is_wrong_with_it(cli: Cli, tmp_path: Path) -> None:
    """Protocol and end of the certificate; one of an unknown authority, or none at all, is a line with a cure."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with odd_endpoint(tls=context) as odd:
        judge = f"{odd.base_url}#odd"
        code, rows = examined(cli, "--judge", judge)
        assert (code, "is not accepted" in rows["reach"]["detail"]) == (4, True)
        assert "$SSL_CERT_FILE" in rows["reach"]["cure"]
        flags = ("doctor", "--judge", judge, "--max-calls", "1")
        done = svr(*flags, cwd=tmp_path, SSL_CERT_FILE=str(CERTIFICATE))  # a process reads this when it starts
        assert (done.returncode, "TLSv1.3, certificate until" in done.stdout) == (0, True), done.stdout
    with odd_endpoint() as plain:
        code, rows = examined(cli, "--judge", f"{plain.base_url.replace('http:', 'https:')}#odd")
        assert (code, rows["reach"]["state"]) == (6, "fail")


def test_a_judge_that_is_not_there_is_said_to_be_down(cli: Cli) -> None:
    """Nothing listens: exit 6; an unknown judge: exit 2 with near names; nothing else is asked."""
    code, rows = examined(cli, "--judge", "http://127.0.0.1:9/v1#m")
    assert (code, rows["reach"]["state"]) == (6, "fail")
    assert re.fullmatch(r"cannot connect to 127\.0\.0\.1:\d+: Connection refused", rows["reach"]["detail"])
    code, rows = examined(cli, "--judge", "gpt-oss-12b")
    assert (code, "did you mean gpt-oss-120b" in rows["judge"]["cure"]) == (2, True)


def test_a_key_is_never_shown(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepted or refused, the sentinel stands in no line."""
    monkeypatch.setenv("SIM_KEY", "sk-sentinel-31337")
    for right in ("sk-sentinel-31337", "other"):
        with serving(SimConfig(api_key=right)) as sim:
            name_judge(tmp_path, sim.base_url, key_env="SIM_KEY")
            code, out, err = cli("doctor", "--judge", "sim")
        assert (code, "sk-sentinel" in out + err) == (0 if right != "other" else 4, False)
        assert ("the key in $SIM_KEY is accepted" in out) == (right != "other")
