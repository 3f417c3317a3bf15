"""Groups whose members arrive one by one: lost ones, retries, duplicates, clients that leave, late ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from arena import PROMPT, TEXTS, arena, rollout
from endpoint import SimConfig
from rig import until

from svr_async.serving.ranking import Schedule


@pytest.mark.parametrize(("schedule", "calls"), [("all", 10), ("circle", 5)])
async def test_members_are_ranked_as_the_library_ranks(tmp_path: Path, schedule: Schedule, calls: int) -> None:
    """In any order of arrival, within the calls of the schedule."""
    async with arena(tmp_path, schedule=schedule) as at:
        places = (4, 1, 3, 0, 2)
        found = dict(zip(places, await at.members(places, 5), strict=True))
        assert at.sim.stats()["paid"] == calls
        assert [found[place]["reward"] for place in range(5)] == await at.ranked(TEXTS[:5], schedule=schedule)


async def test_a_lost_member_does_not_block_its_group(tmp_path: Path) -> None:
    """NeMo Gym's #3351: after a share of the deadline the present members are ranked."""
    async with arena(tmp_path, deadline_s=0.8) as at:
        found = await at.members((0, 1, 3), 4)
        assert [(one["svr_fallback"], one["svr_members"]) for one in found] == [(False, 3.0)] * 3
        assert [one["reward"] for one in found] == await at.ranked([TEXTS[n] for n in (0, 1, 3)], schedule="circle")
        alone = await at.member(0, 4, group="other")
        assert (alone["svr_fallback"], alone["svr_reason"]) == (True, "alone")


async def test_a_retry_gets_the_same_answer_and_asks_nothing(tmp_path: Path) -> None:
    """NeMo Gym's #2814: a member sent again, while its group waits or later, counts once."""
    async with arena(tmp_path) as at:
        first = asyncio.create_task(at.member(0, 3))
        again = asyncio.create_task(at.member(0, 3))
        rest = await at.members((1, 2), 3)
        assert (await first) == (await again) == (await at.member(0, 3))
        assert rest == await at.members((1, 2), 3)
        assert at.sim.stats()["paid"] == 3


async def test_a_client_that_leaves_does_not_cancel_the_others(tmp_path: Path) -> None:
    """NeMo Gym's #2903: the others have their rewards, and the client finds its own when it is back."""
    async with arena(tmp_path, SimConfig(latency_ms=100.0)) as at:
        leaving = asyncio.create_task(at.member(1, 3))
        others = asyncio.create_task(at.members((0, 2), 3))
        await until(lambda: at.server.running == 3)
        leaving.cancel()
        found = await others
        assert [one["svr_coverage"] for one in found] == [1.0, 1.0]
        back = await at.member(1, 3)
        assert (back["svr_fallback"], at.sim.stats()["paid"]) == (False, 3)


async def test_a_late_member_begins_the_next_group(tmp_path: Path) -> None:
    """It is alone there, marked and counted; another attempt is another group."""
    async with arena(tmp_path, deadline_s=0.8, fallback=-2.5) as at:
        await at.members((0, 1), 3)
        late = await at.member(2, 3)
        assert (late["reward"], late["svr_fallback"], late["svr_reason"]) == (-2.5, True, "alone")
        again = await at.members((0, 1, 2), 3, attempt=2)
        assert not any(one["svr_fallback"] for one in again)
        _, metrics = await at.get("/metrics")
        assert 'svr_server_rewards_total{reason="alone"} 1.0' in metrics


async def test_a_request_that_does_not_fit_its_group_is_refused(tmp_path: Path) -> None:
    """Another response of a member, another prompt, another size: one line each, and the group is unharmed."""
    async with arena(tmp_path) as at:
        waiting = asyncio.create_task(at.member(0, 2))
        await until(lambda: at.server.running == 1)
        body = {"prompt": PROMPT, "response": TEXTS[0], "group": "g", "member": 0, "group_size": 2}
        for wrong, says in (
            ({"response": "x"}, "another response"),
            ({"prompt": "y"}, "another prompt"),
            ({"group_size": 3}, "has 2 members, not 3"),
        ):
            status, why = await at.post("/reward", body | wrong)
            assert (status, says in why["error"]) == (409, True)
        await at.member(1, 2)
        assert (await waiting)["svr_members"] == 2.0


async def test_unnamed_groups_are_those_of_a_prompt(tmp_path: Path) -> None:
    """OpenRLHF sends no names: equal texts that wait together are two members, and the next round is a new group."""
    async with arena(tmp_path, group_size=3, deadline_s=5.0) as at:

        async def ask(text: str) -> float:
            body = {"query": [PROMPT + text], "prompts": [PROMPT], "labels": [""]}
            reward: float = (await at.answer("/get_reward", body))["rewards"][0]
            return reward

        one, other, same = await asyncio.gather(ask(TEXTS[0]), ask(TEXTS[1]), ask(TEXTS[0]))
        assert one == same
        assert one + other + same == pytest.approx(0.0, abs=1e-6)
        assert await ask(TEXTS[0]) == one  # back after its group was settled
        rest = await asyncio.gather(*(ask(text) for text in TEXTS[2:5]))
        assert sum(rest) == pytest.approx(0.0, abs=1e-6)


async def test_hundreds_of_members_at_once_get_the_right_answers(tmp_path: Path) -> None:
    """In the shapes of OpenRLHF, one POST a sample, and NeMo Gym: every group has the scores of its texts."""
    async with arena(tmp_path) as at:

        async def openrlhf(n: int) -> float:
            body = {"query": [PROMPT + TEXTS[n % 8]], "prompts": [PROMPT], "labels": [""], "member": n % 8}
            reward: float = (await at.answer(f"/get_reward?group=o{n // 8}&group_size=8", body))["rewards"][0]
            return reward

        async def verl(n: int) -> float:
            reward: float = (await at.member(n % 8, 8, group=f"v{n // 8}"))["reward"]
            return reward

        async def nemo(n: int) -> float:
            body = rollout(n % 8, group_id=f"n{n // 8}", group_attempt=1, group_size=8)
            reward: float = (await at.answer("/verify", body))["reward"]
            return reward

        found = await asyncio.gather(*(how(n) for n in range(96) for how in (openrlhf, verl, nemo)))
        groups = [found[place + shape : place + 24 : 3] for place in range(0, len(found), 24) for shape in range(3)]
        assert groups == [await at.ranked(TEXTS[:8], schedule="circle")] * 36
        assert (at.server.counts()["fallbacks"], at.sim.stats()["paid"]) == (0, 8)
