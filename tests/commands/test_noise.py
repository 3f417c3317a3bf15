"""`svr doctor --repeat N`: byte-identical questions asked past the cache, and what their answers differ in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from odd_endpoint import odd_endpoint
from rig import name_judge, serving, verdict, write_bench

from svr_async.evaluation.noise import read_noise

Cli = Callable[..., tuple[int, str, str]]


def pairs_file(path: Path) -> Path:
    """Write four pairs of one's own."""
    rows = [{"prompt": f"{n}?", "chosen": "yes", "rejected": "no", "id": f"p{n}"} for n in range(4)]
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    return path


def test_flips_on_the_same_bytes_are_measured_past_the_cache(cli: Cli, tmp_path: Path) -> None:
    """An endpoint that answers B to every third asking of a question flips: 2 of 3 couples of askings, in a file."""
    asked: Counter[str] = Counter()

    def changing(body: dict[str, Any]) -> str:
        content = body["messages"][-1]["content"]
        asked[content] += "[[A" in content
        return verdict(content, "B" if asked[content] == 3 else "A")

    with odd_endpoint() as odd:
        odd.text = changing  # type: ignore[method-assign]
        name_judge(tmp_path, odd.base_url, model="odd")
        given = ("--judge", "sim", "--data", pairs_file(tmp_path / "pairs.jsonl"), "--repeat", "3")
        code, out, err = cli("doctor", *given, "--noise", "n.json")
        assert code == 0
        assert "asking 4 pairs 3 times: 12 calls" in err
        assert {times for times in asked.values() if times > 1} == {3}  # the doctor itself asks once
        assert (
            len([body for body in odd.bodies if "[[A" in body["messages"][-1]["content"]]) == 13
        )  # one of the doctor itself
    assert "WARN noise    66.7 % [" in out
    found = read_noise(tmp_path / "n.json")
    assert (found.judge, found.method, found.pairs, found.repeats) == ("sim", "vanilla", 4, 3)
    assert found.flip_share == pytest.approx(2 / 3, abs=1e-6)
    assert found.margin_spread == 2.0
    assert found.models_seen == ("odd",)


def test_a_steady_judge_has_no_noise_and_a_run_says_what_to_ask(cli: Cli, tmp_path: Path) -> None:
    """`--like RUN` asks the run's judge, method and data; the record goes into a comparison and a gate."""
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        bench = write_bench(tmp_path / "rubricbench.jsonl", 6)
        run = ("eval", "rubricbench", "--judge", "sim", "--data", bench, "--method", "oracle", "--out", "run", "-q")
        assert cli(*run)[0] == 0
        code, out, err = cli("doctor", "--repeat", "2", "--like", "run", "--limit", "3", "--json")
        assert (code, err) == (0, "")
    row = {one["check"]: one for one in orjson.loads(out)}["noise"]
    assert row["state"] == "ok"
    assert row["detail"].startswith("0.0\u00a0% [0.0–")
    assert "2 askings of 3 pairs (oracle)" in row["detail"]
    assert row["detail"].endswith("in noise-sim.json")
    assert orjson.loads(cli("gate", "run", "--baseline", "run", "--noise", "noise-sim.json", "--json")[1])["test"][
        "noise"
    ] == {"asked_apart": 0, "expected_discordant": 0.0, "half_width": 0.0}
    assert "own noise makes about 0 of 0 pairs" in cli("compare", "run", "run", "--noise", "noise-sim.json")[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--repeat", "1"), "--repeat"),
        (("--repeat", "3"), "--repeat asks a judge"),
        (("--repeat", "3", "--judge", "rules"), "rules sends nothing"),
        (("--repeat", "3", "--like", "nowhere"), "nowhere is not a run folder"),
    ],
)
def test_what_cannot_be_measured_is_one_line(cli: Cli, given: tuple[str, ...], says: str) -> None:
    """One asking, no judge, a judge that sends nothing, no run."""
    code, out, err = cli("doctor", *given)
    assert code == 2
    assert says in out + err
