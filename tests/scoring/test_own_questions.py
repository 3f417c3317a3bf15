"""Methods with their own questions: Recursive Rubric Decomposition, and generative reward models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimServer
from rig import completion, evaluate, name_judge, scripted_engine, serving, shown, write_bench, writer

from svr_async.engine.request import Request
from svr_async.engine.transport import RawReply
from svr_async.errors import UsageError
from svr_async.evaluation.run import count_calls
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import choose_method, prepare
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.model import ModelJudge
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import NAMES, load_templates
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.rrd import FALLBACK, TEMPLATES, Rrd, RrdOptions, counts_of, whitened_uniform

N = 6


def test_rubrics_that_say_the_same_share_their_weight() -> None:
    """Two equal rubrics weigh √2 of a third that is independent of them, and not twice as much."""
    twice, other = [1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 1, 1, 0, 0]
    first, second, third = whitened_uniform([twice, twice, other], shrink=1e-9)
    assert first == pytest.approx(second)
    assert (first + second) / third == pytest.approx(math.sqrt(2), rel=1e-3)
    assert first + second + third == pytest.approx(1.0)


def test_no_weight_turns_a_rubric_round() -> None:
    """Whatever the verdicts, weights are at least 0 and add up to 1, and unknown verdicts count as the mean."""
    rows: list[list[float | None]] = [[1, 0, 1, 0, 1, 1, 1, 1], [1, 0, 1, 0, 1, 1, 1, 0], [1, None, 1, 0, 1, 1, 0, 0]]
    weights = whitened_uniform(rows, shrink=0.01)
    assert min(weights) >= 0
    assert sum(weights) == pytest.approx(1.0)


Script = dict[str, Callable[[str], Any]]


def said(request: Request, script: Script) -> RawReply:
    """Answer a request by its template: by what its closing lines ask for."""
    text = request.messages[-1][1]
    for mark, answer in script.items():
        if mark in text:
            return completion(answer(text))
    return completion(f"sample {dict(request.params)['seed']}")


def listed(key: str, *rubrics: str) -> Callable[[str], str]:
    """Return an answer with the rubrics under a key."""
    return lambda _: orjson.dumps({key: rubrics}).decode()


def about(**passing: Callable[[str], bool]) -> Callable[[str], str]:
    """Return verdicts by the rubric that is asked about: whether the response shown passes it."""

    def answer(text: str) -> str:
        response = text.partition("RESPONSE>>\n")[2].partition("\n<<")[0]
        name = next(name for name in passing if f"R1: {name}" in text)
        return "[[YES]]" if passing[name](response) else "[[NO]]"

    return answer


async def decide(cache: Path, script: Script, **options: Any) -> tuple[Decision, Rrd, list[Request]]:
    """Decide one planted pair by a script."""
    method = Rrd(options=RrdOptions(**options))
    shipped = load_templates(names=(*NAMES, *TEMPLATES))
    async with scripted_engine(cache, lambda request, _: said(request, script)) as (engine, transport):
        judge = ModelJudge(engine, QuestionWriter(writer().profile, shipped))
        return await method.decide(judge, shown(), ()), method, transport.sent


def better(response: str) -> bool:
    """Whether a response is the first of the planted pair."""
    return response == shown().response_a


async def test_a_coarse_rubric_is_replaced_by_finer_ones(tmp_path: Path) -> None:
    """More than 2 of 8 samples satisfy it: it goes, its children are judged; the margin is their weighted sum."""
    script: Script = {
        "proposed_rubrics": listed("proposed_rubrics", "coarse"),
        "finer_rubrics": listed("finer_rubrics", "one", "two"),
        "R1 with the other": lambda _: "[[NEW]]",
        "CHOSEN>>": lambda _: "worse",
        "satisfy R1": about(coarse=lambda text: "sample" in text, one=better, two=lambda text: text == "sample 3"),
    }
    decision, method, sent = await decide(tmp_path, script)
    assert [part.rubric.text for part in decision.contributions] == ["one", "two"]
    assert decision.margin == pytest.approx(decision.contributions[0].weight)
    assert sum(part.value for part in decision.contributions) == pytest.approx(decision.margin)
    counts = counts_of([method.tally.as_json()])
    assert {name: counts[name] for name in ("generation", "reference", "proposal", "sample_judgments")} == {
        "generation": 8, "reference": 1, "proposal": 1, "sample_judgments": 24
    }  # fmt: skip
    assert (counts["decomposition"], counts["final_judgments"], counts["fallback"]) == (1, 4, 0)
    samples = [request for request in sent if request.sample]
    assert {request.sample for request in samples} == set(range(1, 9))
    assert dict(samples[0].params)["temperature"] == 0.7


async def test_filters_reject_and_the_judge_is_asked_directly(tmp_path: Path) -> None:
    """What the weak reference alone passes and what overlaps is rejected; without a difference the judge decides."""
    script: Script = {
        "proposed_rubrics": listed("proposed_rubrics", "wrong", "kept", "again"),
        "R1 with the other": lambda _: "[[OVERLAP]]",
        "satisfy R1": about(wrong=lambda text: text == "worse", kept=lambda _: False, again=lambda _: False),
        "[[A]]": lambda _: "[[B]]",
        "CHOSEN>>": lambda _: "worse",
    }
    decision, method, _ = await decide(tmp_path, script)
    assert (decision.margin, decision.flags, decision.contributions) == (-1.0, (FALLBACK,), ())
    counts = counts_of([method.tally.as_json()])
    assert (counts["rubrics_mean"], counts["fallback"], counts["decomposition"]) == (1, 1, 0)
    assert counts["redundancy_filter"] == 1


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve the simulated endpoint."""
    with serving() as server:
        yield server


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(folder: Path, sim: SimServer, **more: Any) -> EvalSettings:
    """Return settings for planted pairs, a small search, and a judge of the simulated endpoint."""
    name_judge(folder, sim.base_url)
    data = write_bench(folder / "bench.jsonl", N)
    own = {name: more.pop(name) for name in ("dry_run", "prompts") if name in more}
    limits = JudgeLimits(cache=folder / "cache", **own)
    base: dict[str, Any] = {
        "benchmark": "rubricbench",
        "judge": "sim",
        "method": "rrd",
        "option": ("samples=3", "depth=1", "broad=1"),
    }
    return EvalSettings(**base | {"data": data, "limits": limits, "out": folder / "run", "audit": 0.0} | more)


def test_a_whole_run_counts_its_stages_and_rests_on_the_cache(here: Path, sim: SimServer) -> None:
    """Every call belongs to a stage; the other order asks nothing but fallbacks; our own prompts are noted."""
    before = sim.stats()["calls"]
    first = evaluate(settings(here, sim))
    counts = first.metrics["method_calls"]
    stages = {name: count for name, count in counts.items() if not name.startswith("rubrics")}
    assert sum(stages.values()) == sim.stats()["calls"] - before
    assert (counts["generation"], counts["proposal"]) == (3 * N, N)
    assert any("prompts reconstructed" in note for note in first.metrics["notes"])
    assert "SIMULATED" in first.metrics["judge_label"]
    again = evaluate(settings(here, sim, order="both", out=here / "both"))
    direct = again.metrics["method_calls"]["fallback"] - counts["fallback"]
    assert again.metrics["calls"]["sent"] == direct
    assert again.metrics["method_calls"] == counts | {"fallback": counts["fallback"] + direct}


def test_samplers_are_judges_of_their_own(here: Path, sim: SimServer) -> None:
    """Samples come from each in turn, on the run's budget; the manifest names them; rules cannot be one."""
    other = f"{sim.base_url}#sim-strong"
    option = ("samples=4", f"samplers=sim,{other}", f"weak={sim.base_url}#sim-weak", "depth=0")
    run = evaluate(settings(here, sim, option=option))
    judges = run.metrics["judges"]
    assert set(judges) == {"sim", "sim-strong", "sim-weak"}
    assert (judges["sim-strong"]["calls"]["sent"], judges["sim-weak"]["calls"]["sent"]) == (2 * N, N)
    assert run.metrics["judge_label"].endswith("the method also asks sim-strong, sim-weak")
    with pytest.raises(UsageError, match="rules writes nothing"):
        prepare(settings(here, sim, option=("samplers=rules",)))


def test_a_dry_run_states_what_it_assumes(here: Path, sim: SimServer) -> None:
    """With the paper's settings, 280 judgments of samples a prompt (its run had 238), and half of 20 rubrics kept."""
    count = count_calls(prepare(settings(here, sim, option=(), dry_run=True)))
    assert count is not None
    stages = count["method_calls"]
    assert (stages["generation"], stages["sample_judgments"], stages["rubrics_mean"]) == (8 * N, 280 * N, 10)
    assert "273,232" in count["assumes"]


# ── generative reward models ──


def test_the_proposer_is_another_endpoint(here: Path, sim: SimServer) -> None:
    """One rubric a prompt from the proposer, one verdict a pair from the judge, each counted by itself."""
    proposer = f"proposer={sim.base_url}#sim-strong"
    run = evaluate(settings(here, sim, method="rubric-arm", option=(proposer,)))
    sent = {name: block["calls"]["sent"] for name, block in run.metrics["judges"].items()}
    assert sent == {"sim": N, "sim-strong": N}
    assert {item.margin for item in run.items} <= {1.0, -1.0}
    assert any("prompts reconstructed" in note and "arm_judge" in note for note in run.metrics["notes"])
    assert all(len(item.requests) == 2 for item in run.items)


def test_single_responses_are_scored_once(here: Path, sim: SimServer) -> None:
    """The pointwise model: a rubric and two scores a pair, none of them again in the other order; ties are counted."""
    arrow = {"method": "rubric-arrow", "option": ()}
    run = evaluate(settings(here, sim, **arrow))
    assert run.metrics["calls"]["sent"] == 3 * N
    both = evaluate(settings(here, sim, order="both", out=here / "both", **arrow))
    assert both.metrics["calls"]["sent"] == 0
    assert both.metrics["order"]["flip_rate"] == 0
    assert sum(run.metrics["outcomes"].values()) == N


def test_one_model_that_does_all_in_a_reply(here: Path, sim: SimServer) -> None:
    """RM-R1: one call a pair; with the user's prompt nothing is noted as reconstructed."""
    whole = {"method": "rm-r1", "option": ()}
    assert evaluate(settings(here, sim, **whole)).metrics["calls"]["sent"] == N
    own = here / "prompts"
    own.mkdir()
    (own / "rm_r1.txt").write_text("Judge.\n=== closing ===\nSay [[A]] or [[B]].")
    again = evaluate(settings(here, sim, prompts=own, out=here / "own", **whole))
    assert not [note for note in again.metrics["notes"] if "reconstructed" in note]
    assert again.metrics["calls"]["sent"] == N
    with pytest.raises(UsageError, match="has no proposer"):
        choose_method(EvalSettings(benchmark="pairs", method="rm-r1", option=("proposer=x",)))
