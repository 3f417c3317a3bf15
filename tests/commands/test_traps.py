"""Mistakes that users make: each ends in one line that says what to do, or does as meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from endpoint import SimConfig, SimServer
from made_pairs import write_made, write_planted
from rig import RULES, name_judge, own_cache, run_metrics, serving, write_bank, write_bench, write_judges

Cli = Callable[..., tuple[int, str, str]]
PAIRS = "made.jsonl"
NO_JUDGE = "no judge is named — --judge http://HOST:PORT/v1#MODEL"
EVAL, MODEL = ("eval", PAIRS), ("--judge", "gpt-oss-120b")
RANK, TWO = ("rank", *RULES, "--prompt", "Say it."), ("One.", "Two. Two.")
PAIR, TEXTS = ("--bank", "bank"), ("--prompt", "Name a prime.", "--a", "7", "--b", "9")
EXPLAIN = ("explain", *PAIR, *RULES, *TEXTS)

ONE_LINE: list[tuple[tuple[str, ...], str]] = [
    # names of commands, flags and values
    (("evl",), "did you mean eval?"),
    (("zzz",), "unknown command 'zzz'"),
    (("cache", "exprt"), "export"),
    (("eval",), "SOURCE"),
    (("data", "check"), "PATH"),
    ((*EVAL, "--model", "rules"), "did you mean --judge?"),
    ((*EVAL, "--output-dir", "x"), "did you mean --out?"),
    ((*EVAL, "--sampel"), "--sample"),
    ((*EVAL, "--order", "up"), "up"),
    ((*EVAL, "--audit", "2"), "audit"),
    ((*EVAL, "--max-calls", "-1"), "max-calls"),
    ((*EVAL, "--rpm", "0"), "rpm"),
    ((*EVAL, *RULES, "--seed", "abc"), "'abc' is not a whole number"),
    # judges
    (EVAL, NO_JUDGE),
    (("train", PAIRS, "--out", "out"), NO_JUDGE),
    (("stages", "induce", PAIRS, "--out", "c.jsonl"), NO_JUDGE),
    (("stages", "judge", PAIRS, *PAIR, "--out", "store"), NO_JUDGE),
    (("explain", *TEXTS), NO_JUDGE),
    (("rank", "--prompt", "x", *TWO), NO_JUDGE),
    (("serve",), "no judge is named"),
    ((*EVAL, "--judge", "127.0.0.1:8000#m"), "write it as http://127.0.0.1:8000/v1#m"),
    ((*EVAL, "--judge", "localhost:8000/v2#m"), "write it as http://localhost:8000/v2#m"),
    ((*EVAL, "--judge", "a,b"), "several judges: --jury a,b"),
    ((*EVAL, "--jury", "rules,gpt-oss-120b", *MODEL), "--jury and --judge exclude each other"),
    ((*EVAL, "--jury", "rules"), "at least two judges"),
    ((*EVAL, "--jury", "rules,rules"), "named twice"),
    ((*EVAL, "--jury", "rules,other"), "unknown judge 'other'"),
    ((*EVAL, *MODEL, "--escalate-to", "gpt-oss-120b"), "named twice"),
    ((*EVAL, *MODEL, "--jury-rule", "majority"), "needs a jury"),
    ((*EVAL, *MODEL, "--escalate-below", "1"), "--escalate-to J names it"),
    ((*EVAL, *MODEL, "--order", "ab", "--audit-below", "1"), "exclude each other"),
    ((*EVAL, *RULES, "--concurrency", "0"), "--concurrency 0"),
    ((*EXPLAIN, "--judge", "recorded:replies.jsonl"), "has only the pairs of its recording"),
    ((*EXPLAIN, "--judge", "gpt-oss-120bb"), "did you mean gpt-oss-120b"),
    (("repro", "gap", "--judge", "os=rules"), "--judge os=rules: unknown name 'os' — there are oss, oss-20b"),
    # files and folders
    ((*EVAL, *RULES, "--config", "table.toml"), "keys stand at the top of the file: remove the line [eval]"),
    ((*EVAL, *RULES, "--out", PAIRS), f"'{PAIRS}' is a file: name a folder"),
    (("eval", "rubricbench", *RULES, "--data", "other"), "no data files below other"),
    (("train", "--data", PAIRS), "the file is an argument: svr train PAIRS"),
    (("train", PAIRS, *RULES, "--out", PAIRS), f"'{PAIRS}' is a file: name a folder"),
    (("stages", "judge", "--pairs", PAIRS), "the file is an argument: svr stages judge PAIRS"),
    ((*EXPLAIN, "--a", "@nowhere.txt"), "cannot read --a '@nowhere.txt'"),
    ((*EXPLAIN, "--a", "@raw.bin"), "it is not UTF-8 text"),
    (("rank", *RULES, "nowhere.jsonl", "--out", "x.jsonl"), "no such file or folder: 'nowhere.jsonl'"),
    ((*RANK, "@nowhere.txt", "b"), "cannot read RESPONSE '@nowhere.txt'"),
    (("report", "bank", "bank"), "one bank"),
    (("report", "bank", "--out", "x.md"), ".html"),
    (("report", "nowhere"), "nowhere"),
    (("repro", "gap", "--data", "nowhere"), "--data nowhere holds no benchmark"),
    ((*EVAL, *RULES, "--bank", "nowhere"), "no bank in 'nowhere'"),
    ((*EVAL, *RULES, "--bank", "hf:no"), "invalid name of a bank on the hub: 'hf:no'"),
    ((*RANK, "--bank", "nowhere", *TWO), "nowhere"),
    (("serve", *RULES, "--bank", "nowhere"), "nowhere"),
    # flags that need or exclude others
    (RANK, "Missing argument 'FILE|RESPONSE...'"),
    (("rank", *RULES, *TWO), "--prompt goes with responses, --out with a FILE"),
    ((*RANK, *TWO, "--out", "x.jsonl"), "--prompt goes with responses, --out with a FILE"),
    ((*RANK, *TWO, "--method", "pointwise"), "--method pointwise needs --bank"),
    ((*RANK, *TWO, "--top-k", "3"), "--top-k needs --bank"),
    (("explain",), "needs a RUN, or --prompt, --a and --b"),
    (("explain", *RULES), "needs a RUN, or --prompt"),
    (("explain", *TEXTS[:2]), "a pair needs --a and --b too"),
    (("explain", *PAIR), "a pair needs --prompt and --a and --b too"),
    (("explain", *PAIR, "--prompt", "x", "--b", "y"), "a pair needs --a too "),
    (("explain", "run", *PAIR), "RUN and --bank exclude each other"),
    (("explain", "run", "item", *RULES), "RUN and --judge exclude each other"),
    ((*EXPLAIN, "--data", "d.jsonl"), "--data needs a RUN"),
    ((*EVAL, *RULES, *PAIR, "--rephrase", "-q"), "the judge rules cannot rephrase rubrics"),
    ((*EVAL, *RULES, *PAIR, "--rephrase", "--dry-run", "-q"), "the judge rules cannot rephrase rubrics"),
    ((*EVAL, *MODEL, *PAIR, "--rephrase", "--method", "pointwise"), "with --method svr or uniform"),
    ((*EVAL, *MODEL, *PAIR, "--rephrase", "--method", "oracle"), "with --method svr or uniform"),
    (("serve", *RULES, "--listen", "nowhere"), "is not PORT or HOST:PORT"),
    (("serve", *RULES, "--token-env", "NO_SUCH_TOKEN"), "--token-env NO_SUCH_TOKEN: the variable has no token"),
    (("serve", *RULES, "--top-k", "3"), "top_k and rephrase need a bank"),
    (("repro", "no-such-table"), "the paper has no table 'no-such-table' — there are all, gap"),
    (("repro", "gap", "--bank", "half=bank"), "--bank half=bank: unknown name 'half' — there are full, no-induction"),
]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with pairs, a bank, a config file with a table and a folder of other things."""
    monkeypatch.chdir(tmp_path)
    own_cache(tmp_path)
    write_made(tmp_path / PAIRS, 4)
    write_bank(tmp_path / "bank")
    (tmp_path / "table.toml").write_text('[eval]\njudge = "rules"\n')
    (tmp_path / "raw.bin").write_bytes(b"\xff\xfe")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("not pairs")


@pytest.mark.parametrize(
    ("args", "says"), ONE_LINE, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_mistake_is_one_line_that_says_what_to_do(args: tuple[str, ...], says: str, cli: Cli) -> None:
    """Exit 2, one line, nothing on standard output, nothing written."""
    before = set(Path().rglob("*"))
    code, out, err = cli(*args)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert says in err
    assert set(Path().rglob("*")) == before


def test_a_folder_without_a_run_is_used_and_another_run_is_told_apart(cli: Cli) -> None:
    """Notes in a folder stay; a refused folder says which settings differ, in words."""
    evaluate = ("eval", PAIRS, *RULES, "--out", "other", "-q")
    assert cli(*evaluate)[0] == 0
    assert Path("other/notes.txt").read_text() == "not pairs"
    code, _, err = cli(*evaluate, "--method", "longest", "--limit", "2")
    assert code == 2
    assert "other holds another run: its method is direct, this one has longest" in err
    write_made(Path(PAIRS), 3)
    assert "the data, the bank, the judge's profile or the version" in cli(*evaluate)[2]


def test_a_stopped_run_says_how_far_it_is(cli: Cli, sim: SimServer) -> None:
    """A partial run has no official score and says what to do; the next one names the pairs judged already."""
    write_bench(Path("bench.jsonl"), 12)
    name_judge(Path(), sim.base_url)
    words = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--out", "run", "--audit", "0")
    code, out, _ = cli(*words, "--max-calls", "5", "--concurrency", "1")
    assert (code, "\nofficial  " in out, "next        svr view run; the same command again judges the rest" in out) == (
        4, False, True,
    )  # fmt: skip
    code, out, err = cli(*words)
    assert (code, "resuming: 5 of 12 pairs already judged" in err) == (0, True)
    assert "\nofficial  " in out
    assert "next        svr view run\n" in out


def test_calls_are_planned_in_words(cli: Cli, sim: SimServer) -> None:
    """A dry run names the calls of the order audit, and its expected cost is at most its maximum."""
    write_bench(Path("bench.jsonl"), 12)
    name_judge(Path(), sim.base_url, max_tokens=20, price=[1, 1, 2])
    words = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "1", "--dry-run")
    assert "24 calls, 12 of them for the order audit" in cli(*words)[1]
    plan = orjson.loads(cli(*words, "--json")[1])
    assert plan["completion_tokens"] <= plan["max_completion_tokens"]
    assert plan["usd"] <= plan["max_usd"]


def test_a_budget_needs_a_price(cli: Cli, sim: SimServer) -> None:
    """Without a price, the line names --price and --max-calls."""
    code, _, err = cli("eval", PAIRS, "--judge", f"{sim.base_url}#gpt-oss-120b", "--budget", "1", "-q")
    assert code == 4
    assert "--price IN/OUT" in err
    assert "--max-calls" in err


def test_a_run_without_verdicts_has_a_reason_and_keeps_replies(cli: Cli, sim: SimServer) -> None:
    """Truncated replies: no accuracy, the most common reason, and their text in `svr explain --calls`."""
    write_bench(Path("bench.jsonl"), 3)
    name_judge(Path(), sim.base_url, max_tokens=20)
    code, out, _ = cli("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--out", "run", "-q")
    assert code == 3
    assert (
        "No accuracy: 0 of 3 pairs judged. Most common reason, for 3 pairs: the reply ended before its verdict" in out
    )
    assert run_metrics()["accuracy"] in {0, None}
    code, out, _ = cli("explain", "run", "sim-test-00000", "--calls")
    assert (code, "unreadable reply" in out) == (0, True)
    assert len(out.split("unreadable reply")[1].strip()) > 20
    write_judges(Path(), "")  # the judge is gone, what the run recorded is not
    assert "unreadable reply" in cli("explain", "run", "sim-test-00000", "--calls")[1]


def test_pairs_without_a_verdict_do_not_count_as_judged(cli: Cli) -> None:
    """Half of the calls fail for good: the number of judged pairs is that of verdicts."""
    write_bench(Path("bench.jsonl"), 12)
    with serving(SimConfig(too_long=0.5)) as sim:
        name_judge(Path(), sim.base_url)
        _, out, _ = cli("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--out", "run", "-q")
    n_scored = run_metrics()["n_scored"]
    assert 0 < n_scored < 12
    assert f"{n_scored} of 12 pairs judged" in out


def test_a_training_says_its_round_its_plan_and_once_that_pairs_are_few(cli: Cli, sim: SimServer) -> None:
    """Rounds are counted out of all; calls and time are estimated first; the last line says what to do next."""
    write_planted(Path("pairs.jsonl"), 40)
    name_judge(Path(), sim.base_url)
    code, out, err = cli("train", "pairs.jsonl", "--judge", "sim", "--out", "out", "--rounds", "2", "--pool-size", "9")
    assert code == 0
    assert err.splitlines()[0].startswith("plan: 2 rounds, about ")
    assert "round 1 of 2: " in err
    assert len(re.findall(r"\d+ held-out pairs?, 100 needed", err)) == 1
    assert "next        svr eval OTHER_PAIRS --judge … --bank out/bank" in out


def test_gate_prints_words(cli: Cli) -> None:
    """No value of Python reaches the screen of `svr gate`, whether runs can be compared or not."""
    for method in ("direct", "longest"):
        assert cli("eval", PAIRS, *RULES, "--method", method, "--out", method, "-q")[0] == 0
    assert cli("eval", PAIRS, *RULES, "--limit", "2", "--out", "few", "-q")[0] == 0
    for baseline in ("direct", "longest", "few"):
        _, out, err = cli("gate", "direct", baseline)
        assert not [word for word in ("None", "True", "False", "[", "{", "='", "()") if word in out + err], out
