"""Judges that answer in other words: the same verdicts as the perfect one, in at most 1.1 calls a pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endpoint import SimConfig, SimServer
from rig import judge_at

from svr_async.core.pair import Order, present
from svr_async.core.rubric import Rubric
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.manners import EVEN, MANNERS
from svr_async.simulation.simulator import Simulator
from svr_async.simulation.wire import ChatRequest
from svr_async.simulation.world import World, draw

PAIRS = [present(planted.pair, Order.AB) for planted in World().pairs(40)]
RUBRICS = [Rubric(text=criterion.rubric) for criterion in CRITERIA[:4]]
Verdicts = dict[tuple[str, str], Any]


async def judged(config: SimConfig, cache: Path) -> tuple[Verdicts, float]:
    """Return all verdicts of an endpoint by role and pair, and its calls per question."""
    found: Verdicts = {}
    async with SimServer(config) as sim, judge_at(sim.base_url, cache, concurrency=8) as judge:
        for shown in PAIRS:
            direct = await judge.prefer(shown)
            rows = await judge.compare(shown, RUBRICS, overall=False)
            overall = await judge.compare(shown, RUBRICS, overall=True)
            found["direct", shown.pair_id] = direct.value and direct.value.margin
            for name, answer in (("rows", rows), ("overall", overall)):
                value = answer.value
                found[name, shown.pair_id] = value and [(row.rubric_id, row.a, row.b, row.better) for row in value.rows]
                found[f"{name} preferred", shown.pair_id] = value and value.preferred
        return found, sim.stats()["calls"] / (3 * len(PAIRS))


@pytest.fixture(scope="module")
def perfect() -> dict[str, Verdicts]:
    """Return the verdicts of the plain manner, once they are known."""
    return {}


@pytest.mark.parametrize("manner", MANNERS)
async def test_every_manner_is_read_as_the_perfect_one(
    manner: str, perfect: dict[str, Verdicts], cache_folder: Path
) -> None:
    """Direct and with rubrics, plain text and JSON; a judge without a preference gives ties, and Δ without the 0.25."""
    found, calls = await judged(SimConfig(manner=manner), cache_folder)
    wanted = perfect.setdefault("plain", found)
    assert None not in [found[key] for key in found if "preferred" not in key[0]]
    if manner not in EVEN:
        assert found == wanted
    else:
        assert {found["direct", shown.pair_id] for shown in PAIRS} == {0.0}
        rows = {key: [(*row[:3], None) for row in value] for key, value in wanted.items() if key[0] == "rows"}
        assert {key: found[key] for key in rows} == rows
    assert calls <= 1.1


UNANSWERED: dict[str, dict[str, Any]] = {
    "empty": {"message": {"content": ""}},
    "refused": {"message": {"content": None, "refusal": "No."}, "finish_reason": "content_filter"},
    "truncated": {"message": {"content": "{"}, "finish_reason": "length"},
}


@pytest.mark.parametrize("fault", UNANSWERED)
async def test_replies_without_an_answer_are_asked_again(
    fault: str, monkeypatch: pytest.MonkeyPatch, perfect: dict[str, Verdicts], cache_folder: Path
) -> None:
    """If a tenth of the first replies has no verdict, the final ones are the perfect judge's, in as many more calls."""
    wanted = perfect.get("plain") or (await judged(SimConfig(), cache_folder / "plain"))[0]

    honest, seen = Simulator.reply, set[str]()

    def failing(simulator: Simulator, request: ChatRequest, attempt: int = 0, *, empty: bool = False) -> Any:
        """Answer a tenth of the questions only when they are asked again."""
        reply, topic = honest(simulator, request, attempt, empty=empty), f"{request.asks}{request.fences}"
        if topic not in seen and draw(topic) < 0.1:
            reply["choices"][0] |= UNANSWERED[fault]
        seen.add(topic)
        return reply

    monkeypatch.setattr(Simulator, "reply", failing)
    found, calls = await judged(SimConfig(), cache_folder / fault)
    assert found == wanted
    assert 1 < calls <= 1.25
