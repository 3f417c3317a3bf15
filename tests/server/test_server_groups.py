"""Groups whose members come one by one: lost ones, retries, duplicates, clients that leave, and those that are late."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from arena import PROMPT, TEXTS, arena, rollout
from rig import until

from svr_async.server.group import planned
from svr_async.serving.schedules import Schedule, most_pairs
from svr_async.simulation.config import SimConfig


@pytest.mark.parametrize("schedule", ["all", "circle", "anchor", "swiss"])
async def test_members_that_come_one_by_one_are_ranked_as_the_library_ranks(tmp_path: Path, schedule: Schedule) -> None:
    """In any order of arrival, within the calls of the schedule, and the scores sum to zero."""
    async with arena(tmp_path, schedule=schedule) as at:
        told = await at.members((4, 1, 3, 0, 2), 5)
        rewards = [one["reward"] for one in sorted(told, key=lambda one: (4, 1, 3, 0, 2)[told.index(one)])]
        assert at.sim.stats()["paid"] == most_pairs(schedule, 5)
        assert rewards == await at.ranked(TEXTS[:5], schedule=schedule)
        assert sum(rewards) == pytest.approx(0.0, abs=1e-6)


async def test_pairs_are_judged_while_others_are_still_awaited(tmp_path: Path) -> None:
    """With three of four members there, two pairs of the circle are paid for already."""
    async with arena(tmp_path) as at:
        waiting = asyncio.create_task(at.members((0, 1, 2), 4))
        await until(lambda: at.sim.stats()["paid"] == 2)
        assert not waiting.done()
        await at.member(3, 4)
        assert len(await waiting) == 3
        assert planned("swiss", 4) == ()


async def test_a_lost_member_does_not_hang_its_group(tmp_path: Path) -> None:
    """NeMo Gym's #3351: those present are ranked when the time to come is over, and say how many they were."""
    async with arena(tmp_path, gather_s=0.3) as at:
        told = await at.members((0, 1, 3), 4)
        assert [one["svr_fallback"] for one in told] == [False] * 3
        assert {one["svr_members"] for one in told} == {3.0}
        assert [one["reward"] for one in told] == await at.ranked([TEXTS[n] for n in (0, 1, 3)], schedule="circle")
        assert at.server.tally.groups["short"] == 1
        alone = await at.member(0, 4, group="other")
        assert (alone["svr_fallback"], alone["svr_reason"]) == (True, "alone")


async def test_a_retry_is_told_the_same_and_asks_nothing(tmp_path: Path) -> None:
    """NeMo Gym's #2814: a member that comes again while its group waits, or after it, is counted once."""
    async with arena(tmp_path) as at:
        first = asyncio.create_task(at.member(0, 3))
        again = asyncio.create_task(at.member(0, 3))
        rest = await at.members((1, 2), 3)
        paid = at.sim.stats()["paid"]
        assert (await first) == (await again) == (await at.member(0, 3))
        assert rest == await at.members((1, 2), 3)
        assert (at.sim.stats()["paid"], paid) == (3, 3)
        assert at.server.tally.groups["full"] == 1


async def test_a_client_that_leaves_does_not_cancel_the_others(tmp_path: Path) -> None:
    """NeMo Gym's #2903: the work goes on, the others have their rewards, and who left finds its own when it is back."""
    async with arena(tmp_path, SimConfig(latency_ms=100.0)) as at:
        leaving = asyncio.create_task(at.member(1, 3))
        others = asyncio.create_task(at.members((0, 2), 3))
        await until(lambda: at.server.tally.under_way == 3)
        leaving.cancel()
        told = await others
        assert [one["svr_coverage"] for one in told] == [1.0, 1.0]
        back = await at.member(1, 3)
        assert (back["svr_fallback"], at.sim.stats()["paid"]) == (False, 3)
        assert sum(one["reward"] for one in (*told, back)) == pytest.approx(0.0, abs=1e-6)


async def test_a_late_member_has_the_declared_fallback(tmp_path: Path) -> None:
    """It is marked and counted; a new attempt of the group is a group of its own."""
    async with arena(tmp_path, gather_s=0.2, fallback=-2.5) as at:
        await at.members((0, 1), 3)
        late = await at.member(2, 3)
        assert (late["reward"], late["svr_fallback"], late["svr_reason"]) == (-2.5, True, "late")
        assert at.server.tally.rewards["late"] == 1
        again = await at.members((0, 1, 2), 3, attempt=2)
        assert not any(one["svr_fallback"] for one in again)
        _, metrics = await at.get("/metrics")
        assert 'svr_server_rewards_total{reason="late"} 1.0' in metrics
        assert "svr_server_fallbacks_total 1.0" in metrics


async def test_what_does_not_fit_its_group_is_refused(tmp_path: Path) -> None:
    """Another response for a member, another prompt, another size: each is a line, and the group is left alone."""
    async with arena(tmp_path) as at:
        waiting = asyncio.create_task(at.member(0, 2))
        await until(lambda: at.server.rewarder.pool.gathering == 1)
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


async def test_groups_without_a_name_are_those_of_a_prompt(tmp_path: Path) -> None:
    """OpenRLHF sends no names: equal texts that wait together are two members, and the next round is a new group."""
    async with arena(tmp_path, group_size=3, gather_s=3.0) as at:

        async def ask(text: str) -> float:
            told = await at.told("/get_reward", {"query": [PROMPT + text], "prompts": [PROMPT], "labels": [""]})
            reward: float = told["rewards"][0]
            return reward

        one, other, same = await asyncio.gather(ask(TEXTS[0]), ask(TEXTS[1]), ask(TEXTS[0]))
        assert one == same
        assert one + other + same == pytest.approx(0.0, abs=1e-6)
        assert await ask(TEXTS[0]) == one  # back after its group was settled
        await asyncio.gather(*(ask(text) for text in TEXTS[2:5]))
        assert at.server.tally.groups == {"full": 2}


async def test_a_task_may_come_again_in_the_next_epoch(tmp_path: Path) -> None:
    """NeMo Gym's tasks keep their index: other responses of the same rollouts are another group, not a conflict."""
    async with arena(tmp_path) as at:
        first = await asyncio.gather(*(at.told("/verify?group_size=2", rollout(n)) for n in range(2)))
        rows = [rollout(n) | {"_ng_rollout_index": n - 2} for n in (2, 3)]
        second = await asyncio.gather(*(at.told("/verify?group_size=2", row) for row in rows))
        assert not any(one["mask_sample"] for one in (*first, *second))
        assert at.server.tally.groups["full"] == 2


async def test_groups_are_forgotten_and_never_too_many(tmp_path: Path) -> None:
    """Settled ones after a while, or when there is no room; a group too many waits is turned away for now."""
    async with arena(tmp_path, keep_s=0.1, max_groups=2, gather_s=1.0) as at:
        await at.members((0, 1), 2)
        pool = at.server.rewarder.pool
        await until(lambda: len(pool) == 0)
        waiting = [asyncio.create_task(at.member(0, 2, group=name)) for name in ("one", "two")]
        await until(lambda: len(pool) == 2)
        status, why = await at.post(
            "/reward", {"prompt": PROMPT, "response": "x", "group": "three", "member": 0, "group_size": 2}
        )
        assert (status, "2 groups wait already" in why["error"]) == (429, True)
        await asyncio.gather(*waiting)


async def test_five_hundred_at_once_get_the_right_answers(tmp_path: Path) -> None:
    """In the shapes of OpenRLHF, of a POST a sample, and of NeMo Gym: every group has the scores of its texts."""
    async with arena(tmp_path) as at:

        async def openrlhf(n: int) -> float:
            body = {"query": [PROMPT + TEXTS[n % 8]], "prompts": [PROMPT], "labels": [""]}
            told = await at.told(f"/get_reward?group=o{n // 8}&group_size=8", body | {"member": n % 8})
            reward: float = told["rewards"][0]
            return reward

        async def verl(n: int) -> float:
            reward: float = (await at.member(n % 8, 8, group=f"v{n // 8}"))["reward"]
            return reward

        async def nemo(n: int) -> float:
            body = rollout(n % 8, group_id=f"n{n // 8}", group_attempt=1, group_size=8)
            reward: float = (await at.told("/verify", body))["reward"]
            return reward

        asked = [how(n) for n in range(168) for how in (openrlhf, verl, nemo)]
        told = await asyncio.gather(*asked)
        groups = [told[place + shape : place + 24 : 3] for place in range(0, len(told), 24) for shape in range(3)]
        assert groups == [await at.ranked(TEXTS[:8], schedule="circle")] * 63
        assert at.server.tally.fallbacks == 0
        assert at.sim.stats()["paid"] == 8
