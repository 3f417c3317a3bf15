"""Every shape that the server speaks is answered as its clients read it, with what the library would say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from arena import FACTS, KEYS, PROMPT, TEXTS, Arena, arena, output, rollout

from svr_async import Engine, ascore
from svr_async.serving.texts import templated_turns, without_end

FOUR = TEXTS[:4]
CHATML = f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"


async def scored_alone(at: Arena, text: str) -> float | None:
    """Return the score that the library gives to one response."""
    bank = at.server.judge.bank
    assert bank is not None
    async with Engine(at.judge, cache=at.cache) as engine:
        return (await ascore(PROMPT, text, bank=bank, engine=engine)).value


async def test_openrlhf_gets_numbers(tmp_path: Path) -> None:
    """Lists of one, as its executor sends them, with a chat template's marks; extra_logs has the same keys."""
    async with arena(tmp_path) as at:
        query = {"query": [CHATML + FOUR[0] + "<|im_end|>\n"], "prompts": [CHATML], "labels": [""]}
        found = await at.answer("/get_reward", query)
        assert found["rewards"] == found["scores"] == [await scored_alone(at, FOUR[0])]
        assert set(found["extra_logs"]) == KEYS
        assert all(isinstance(value, float) for values in found["extra_logs"].values() for value in values)
        whole = await at.answer("/get_reward", {"query": [CHATML + FOUR[0]]})
        assert whole == found
        batch = {"query": [PROMPT + text for text in FOUR], "prompts": [PROMPT] * 4, "labels": [None] * 4}
        grouped = await at.answer("/get_reward?group_size=4", batch)
        assert grouped["rewards"] == await at.ranked(FOUR, schedule="circle")


async def test_slime_gets_a_number_or_an_object_and_groups_a_list(tmp_path: Path) -> None:
    """The body is the reward, with a key an object; samples of one prompt are one group, in order."""
    async with arena(tmp_path) as at:
        body = {"prompt": [{"role": "user", "content": PROMPT}], "response": FOUR[0], "label": "x"}
        alone = await at.answer("/reward", body)
        assert alone == await scored_alone(at, FOUR[0])
        named = await at.answer("/reward?key=mine", body)
        assert named["mine"] == alone
        assert set(named) == FACTS | {"mine"}
        expected = await at.ranked(FOUR, schedule="circle")
        assert await at.answer("/reward", {"prompt": PROMPT, "responses": FOUR}) == expected
        samples = [{"prompt": PROMPT, "response": text, "label": None} for text in FOUR]
        other = [{"prompt": "Say much.", "response": text} for text in FOUR[:2]]
        rewards = await at.answer("/reward", [other[0], *samples, other[1]])
        assert rewards[1:5] == expected
        assert sum(rewards[::5]) == pytest.approx(0.0, abs=1e-8)
        async with at.client.post(at.server.url + "/reward", json=body) as reply:
            assert (reply.headers["X-SVR-Fallback"], "SIMULATED" in reply.headers["X-SVR-Judge"]) == ("0", True)


async def test_nemo_gym_gets_a_reward_and_whether_to_mask(tmp_path: Path) -> None:
    """Rollouts of a task are one group; the request's fields come back; /compare returns every comparison."""
    async with arena(tmp_path) as at:
        expected = await at.ranked(FOUR, schedule="circle")
        rewards = await asyncio.gather(*(at.answer("/verify", rollout(n, group_size=4)) for n in range(4)))
        assert [one["reward"] for one in rewards] == expected
        assert not any(one["mask_sample"] for one in rewards)
        assert rewards[0]["response"] == output(FOUR[0])
        assert set(rewards[0]) == FACTS | {"responses_create_params", "response", "reward", "mask_sample"}
        history = [{"role": "user", "content": PROMPT}]
        body = {"conversation_history": history, "response_objs": [output(text) for text in FOUR]}
        compared = await at.answer("/compare", body)
        assert compared["rewards"] == expected
        assert [(one["response_i"], one["response_j"]) for one in compared["comparison_results"]] == [
            (0, 1), (0, 3), (1, 2), (2, 3),
        ]  # fmt: skip


async def test_clients_of_rerankers_get_the_best_of_n(tmp_path: Path) -> None:
    """All three addresses alike; documents may be objects; scores are the library's, best first, cut at top_n."""
    async with arena(tmp_path) as at:
        expected = await at.ranked(FOUR, schedule="circle")
        body = {"model": "m", "query": PROMPT, "documents": [{"text": FOUR[0]}, *FOUR[1:]]}
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            found = (await at.answer(path, body | {"top_n": 3}))["results"]
            scores = [one["relevance_score"] for one in found]
            assert scores == sorted((one or 0.0 for one in expected), reverse=True)[:3]
            assert all(one["document"]["text"] == FOUR[one["index"]] for one in found)
        short = (await at.answer("/rerank", body | {"top_k": 1, "return_documents": False}))["results"]
        assert (len(short), "document" in short[0]) == (1, False)
        tei = await at.answer("/rerank", {"query": PROMPT, "texts": FOUR, "return_text": True})
        assert [(one["index"], one["text"]) for one in tei] == [
            (n, FOUR[n]) for n in sorted(range(4), key=lambda n: -(expected[n] or 0.0))
        ]


async def test_score_and_classify_judge_each_alone(tmp_path: Path) -> None:
    """In vLLM's forms, by the bank; verl reads the last probability of the last row."""
    async with arena(tmp_path) as at:
        expected = [await scored_alone(at, text) for text in FOUR]
        for one, other in (("queries", "documents"), ("text_1", "text_2"), ("data_1", "data_2")):
            found = await at.answer("/score", {"model": "m", one: PROMPT, other: FOUR})
            assert [row["score"] for row in found["data"]] == expected
            assert "SIMULATED" in found["model"]
        turns = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": FOUR[0]}]
        for body in ({"messages": turns}, {"input": CHATML + FOUR[0] + "<|im_end|>"}, {"input": [turns]}):
            found = await at.answer("/classify", {"model": "m", "use_activation": False, **body})
            assert found["data"][-1]["probs"][-1] == expected[0]


async def test_without_a_bank_it_is_said_what_cannot_be(tmp_path: Path) -> None:
    """A response alone is refused with a hint, before any call; groups are judged by the model directly."""
    async with arena(tmp_path, bank=False) as at:
        for path, body in (
            ("/reward", {"prompt": PROMPT, "response": "x"}),
            ("/score", {"queries": PROMPT, "documents": ["x"]}),
            ("/get_reward", {"query": [PROMPT + "x"], "prompts": [PROMPT]}),
        ):
            status, why = await at.post(path, body)
            assert (status, "this server has no bank" in why["error"]) == (422, True)
        assert at.sim.stats()["calls"] == 0
        assert await at.answer("/reward", {"prompt": PROMPT, "responses": FOUR}) == await at.ranked(
            FOUR, schedule="circle"
        )


def test_chat_templates_are_read_back() -> None:
    """The marks of four families become turns; a text without any is the user's."""
    head = "<|start_header_id|>{}<|end_header_id|>\n\n"
    for text in (
        f"{head.format('user')}Hi<|eot_id|>{head.format('assistant')}Yo",
        "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n",
        "<|user|>\nHi<|end|>\n<|assistant|>\nYo<|end|>",
        f"<|im_start|>user\nHi<|im_end|>\n{CHATML[-22:]}Yo<|im_end|>\n<|endoftext|>",
    ):
        assert [(turn.role, turn.content) for turn in templated_turns(text)] == [("user", "Hi"), ("assistant", "Yo")]
    assert [turn.role for turn in templated_turns(CHATML)] == ["user"]
    assert templated_turns("a <|im_start|>robot\nb")[0].content == "a <|im_start|>robot\nb"


def test_end_marks_are_cut_in_linear_time() -> None:
    """A policy that learns to write end marks by the hundred thousand does not block the server."""
    assert without_end("a " + "<eos> \n<|im_end|>" * 50_000 + "\n") == "a "
    assert without_end("a<eos> b \n") == "a<eos> b \n"
