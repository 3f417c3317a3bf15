"""vLLM's pooling shapes: `/score`, `/rerank` (also Jina's and Cohere's form) and `/classify`.

A rerank compares the documents with each other: scores that sum to zero. Score and classify judge each response alone
by the bank: in [0, 1], for the rubrics that hold, weighed by importance; not a probability.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.core.pair import Prompt
from svr_async.server.chat_text import turns_of
from svr_async.server.reading import Body, a_list, an_object, conversation, lacking
from svr_async.server.refusal import RefusalError
from svr_async.server.rewarder import Asked, Rewarder
from svr_async.server.rewards import Reward
from svr_async.server.shapes.contract import Call, Route, Told, check_batch
from svr_async.serving.texts import as_prompt

SIDES = (("queries", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2"))
USAGE = {"prompt_tokens": 0, "total_tokens": 0}
LABEL = "svr"


async def score(rewarder: Rewarder, call: Call) -> Told:
    """Answer one query and some documents, or as many queries as documents, with a score for each document."""
    body = an_object(call.body)
    queries, documents = _two_sides(body)
    check_batch(rewarder, len(documents))
    prompts = [conversation(query) for query in queries]
    if len(prompts) == 1:
        prompts *= len(documents)
    if len(prompts) != len(documents):
        raise RefusalError(422, f"{len(queries)} queries do not go with {len(documents)} documents")
    asked = [Asked(prompt=prompt, response=text) for prompt, text in zip(prompts, documents, strict=True)]
    rewards = await asyncio.gather(*map(rewarder.reward, asked))
    data = [
        {"index": n, "object": "score", "score": one.value, **one.facts(rewarder.label)}
        for n, one in enumerate(rewards)
    ]
    return Told.of(_listed(rewarder, "score", data), rewards)


async def rerank(rewarder: Rewarder, call: Call) -> Told:
    """Answer {query, documents, top_n} with the documents by score, best first; those without a verdict come last."""
    body = an_object(call.body)
    if "query" not in body:
        raise lacking("query")
    documents = [_text(one) for one in a_list(body, "documents")]
    top = body.get("top_n") or len(documents)
    if not isinstance(top, int) or top < 1:
        raise RefusalError(422, f"top_n is a number from 1, not {str(top)[:20]!r}")
    rewards, _ = await rewarder.among(conversation(body["query"]), documents)
    order = sorted(range(len(documents)), key=lambda n: (rewards[n].is_fallback, -rewards[n].value, n))
    results = [_result(rewarder, n, documents[n], rewards[n]) for n in order[:top]]
    told = {"id": f"rerank-{secrets.token_hex(8)}", "model": rewarder.label, "usage": USAGE, "results": results}
    return Told.of(told, rewards)


async def classify(rewarder: Rewarder, call: Call) -> Told:
    """Answer conversations that end with a response, as messages or as a chat template's text, with one class each."""
    body = an_object(call.body)
    found = [_conversation(one) for one in _inputs(body)]
    check_batch(rewarder, len(found))
    asked = [Asked(prompt=turns[:-1], response=turns[-1].content) for turns in found]
    rewards = await asyncio.gather(*map(rewarder.reward, asked))
    data = [
        {"index": n, "label": LABEL, "probs": [one.value], "num_classes": 1, **one.facts(rewarder.label)}
        for n, one in enumerate(rewards)
    ]
    return Told.of(_listed(rewarder, "classify", data), rewards)


def _listed(rewarder: Rewarder, kind: str, data: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"id": f"{kind}-{secrets.token_hex(8)}", "object": "list", "created": int(time.time())}
    return {**head, "model": rewarder.label, "data": data, "usage": USAGE}


def _result(rewarder: Rewarder, place: int, text: str, reward: Reward) -> dict[str, Any]:
    facts = reward.facts(rewarder.label)
    return {"index": place, "document": {"text": text}, "relevance_score": reward.value, **facts}


def _two_sides(body: Body) -> tuple[list[Any], list[str]]:
    for one, other in SIDES:
        if one in body and other in body:
            given = [body[name] if isinstance(body[name], list) else [body[name]] for name in (one, other)]
            if not all(given):
                break
            return given[0], [_text(text) for text in given[1]]
    raise RefusalError(422, "the body has no query and documents", hint="queries and documents, or text_1 and text_2")


def _text(document: Any) -> str:
    text = document.get("text") if isinstance(document, Mapping) else document
    if not isinstance(text, str):
        raise RefusalError(422, "a document is a text, or has one as 'text'")
    return text


def _inputs(body: Body) -> list[Any]:
    if "messages" in body:
        return [a_list(body, "messages")]
    given = body.get("input")
    if not given:
        raise lacking("input")
    return [given] if isinstance(given, str) else a_list(body, "input")


def _conversation(given: Any) -> Prompt:
    turns = turns_of(given) if isinstance(given, str) else as_prompt(given)
    if len(turns) < 2 or turns[-1].role != "assistant":
        raise RefusalError(
            422, "an input does not end with a response", hint="send messages, or a chat template's text with its marks"
        )
    return turns


_FACTS = {"svr_fallback": False, "svr_judge": "gpt-oss-120b"}
ROUTES: Sequence[Route] = (
    Route(
        paths=("/rerank", "/v1/rerank", "/v2/rerank"),
        answer=rerank,
        summary="Documents (responses) to a query (a prompt), compared with each other, best first.",
        for_whom="clients of rerankers: vLLM, Jina, Cohere, LiteLLM, LangChain",
        body={"model": "svr", "query": "Say hello.", "documents": ["Hello!", "No."], "top_n": 2},
        reply={"id": "rerank-1", "model": "gpt-oss-120b", "usage": USAGE, "results": [
            {"index": 0, "document": {"text": "Hello!"}, "relevance_score": 0.5, **_FACTS}]},
    ),
    Route(
        paths=("/score", "/v1/score"),
        answer=score,
        summary="Each document (response) to a query (a prompt), alone, by the bank: in [0, 1].",
        for_whom="vLLM's score API",
        body={"model": "svr", "queries": "Say hello.", "documents": ["Hello!", "No."]},
        reply={"id": "score-1", "object": "list", "data": [{"index": 0, "object": "score", "score": 0.8, **_FACTS}]},
    ),
    Route(
        paths=("/classify",),
        answer=classify,
        summary="A conversation that ends with a response: its score by the bank, in [0, 1], as one class.",
        for_whom="vLLM's classify API, as verl asks reward models",
        body={"model": "svr", "messages": [
            {"role": "user", "content": "Say hello."}, {"role": "assistant", "content": "Hello!"}]},
        reply={"object": "list", "data": [{"index": 0, "label": LABEL, "probs": [0.8], "num_classes": 1, **_FACTS}]},
    ),
)  # fmt: skip
