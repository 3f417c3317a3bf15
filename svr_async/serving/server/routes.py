"""Routes: our comparison, rewards of a response or a group, OpenRLHF's remote reward model, rerankers, score APIs.

A rerank compares documents with each other; scores sum to zero. Score and classify judge each response alone by the
bank, in [0, 1]. With `rubrics` in the body each response has Σ points · satisfied.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import msgspec

from svr_async.core.pair import Prompt, prompt_text
from svr_async.serving.scores import Reward
from svr_async.serving.server.groups import Seat
from svr_async.serving.server.rewarder import Asked, Rewarder
from svr_async.serving.server.settings import RefusalError, fallback
from svr_async.serving.texts import as_prompt, as_response, templated_turns, without_end

Body = Mapping[str, Any]
SIDES = (("queries", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: the JSON of its body, and the parameters of its address."""

    body: Any
    query: Mapping[str, str]

    @property
    def fields(self) -> Body:
        """The body as an object; RefusalError (422)."""
        if not isinstance(self.body, dict):
            raise RefusalError(422, f"the body is {type(self.body).__name__}, not an object")
        return self.body


Answered = tuple[Any, Sequence[Reward]]
"""A JSON value, and the rewards in it."""
Answer = Callable[[Rewarder, Call], Awaitable[Answered]]


def required(body: Body, name: str) -> Any:
    """Return a field; RefusalError (422) if it is missing."""
    if body.get(name) is None:
        raise RefusalError(422, f"the body has no {name!r}")
    return body[name]


def list_of(body: Body, name: str) -> list[Any]:
    """Return a list with at least one item, also of a lone text; RefusalError (422)."""
    value = required(body, name)
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise RefusalError(422, f"{name!r} is not a list of at least one item")
    return items


def conversation(value: Any) -> Prompt:
    """Return a prompt from a text, with or without a chat template's marks, or messages."""
    return templated_turns(value) if isinstance(value, str) else as_prompt(value)


def response_to(prompt: Prompt, value: Any) -> str:
    """Return the text of a response, without the end marks of a tokenizer."""
    return without_end(as_response(value, prompt))


def rubrics_of(body: Body) -> tuple[Any, ...]:
    """Return the criteria with points of a body, if any; RefusalError (422)."""
    rubrics = body.get("rubrics") or []
    if not isinstance(rubrics, list):
        raise RefusalError(422, "'rubrics' is a list of criteria with points")
    return tuple(rubrics)


def asked_of(rewarder: Rewarder, call: Call, body: Body, prompt: Prompt, response: str) -> Asked:
    """Return a response with its rubrics, or its place in a group, in the body or the address.

    A size without a group means the group of the prompt; without a size the response is alone.
    """
    if rubrics := rubrics_of(body):
        return Asked(prompt=prompt, response=response, rubrics=rubrics)
    given = {name: value for name, value in {**call.query, **body}.items() if value is not None}
    try:
        seat = msgspec.convert({"group_size": rewarder.settings.group_size} | given, Seat, strict=False)
    except msgspec.ValidationError as error:
        raise RefusalError(422, str(error), hint="group, attempt and member are names; group_size counts") from None
    if seat.group_size == 0 and seat.group is not None:
        raise RefusalError(422, f"the size of group {seat.group!r} is missing", hint="send group_size")
    if seat.group is None:
        seat = msgspec.structs.replace(seat, group=f"prompt {prompt_text(prompt)}")
    return Asked(prompt=prompt, response=response, seat=seat if seat.group_size > 1 else None)


async def compare(rewarder: Rewarder, call: Call) -> Answered:
    """`/v1/svr/compare`: answer {prompt, a, b} with margin, winner, outcome and contributions."""
    body = call.fields
    prompt = conversation(required(body, "prompt"))
    a, b = (response_to(prompt, required(body, name)) for name in ("a", "b"))
    verdict = await rewarder.judge.pair(prompt, a, b)
    failed = [fallback(rewarder.settings, verdict.outcome.value)] if verdict.margin is None else []
    return {**verdict.to_json(), "svr_fallback": bool(failed), "svr_judge": rewarder.judge.label}, failed


async def reward(rewarder: Rewarder, call: Call) -> Answered:
    """`/reward`, for slime and one POST a sample: answer {prompt, response} with the number.

    `?key=NAME` gives an object with the reward under that name. A list of bodies, or {prompt, responses}, gets a list;
    those of one prompt are compared with each other.
    """
    if isinstance(call.body, list):
        return await _samples(rewarder, call, [replace(call, body=item).fields for item in call.body])
    body = call.fields
    if "responses" in body:
        return await _samples(rewarder, call, [{**body, "response": text} for text in list_of(body, "responses")])
    result = await rewarder.reward(_sample(rewarder, call, body))
    return _shown(rewarder, call, result), [result]


def _sample(rewarder: Rewarder, call: Call, body: Body) -> Asked:
    prompt = conversation(required(body, "prompt"))
    return asked_of(rewarder, call, body, prompt, response_to(prompt, required(body, "response")))


async def _samples(rewarder: Rewarder, call: Call, bodies: Sequence[Body]) -> Answered:
    """Compare responses to one prompt with each other, unless they have rubrics."""
    asked = [_sample(rewarder, call, body) for body in bodies]
    groups: dict[Prompt | int, list[int]] = {}
    for place, sample in enumerate(asked):
        groups.setdefault(place if sample.rubrics else sample.prompt, []).append(place)

    async def judged(places: Sequence[int]) -> list[Reward]:
        first = asked[places[0]]
        if first.rubrics:
            return [await rewarder.reward(first)]
        rewards, _ = await rewarder.among(first.prompt, [asked[place].response for place in places])
        return rewards

    results = await asyncio.gather(*map(judged, groups.values()))
    order = [place for places in groups.values() for place in places]
    by_place = dict(zip(order, chain(*results), strict=True))
    rewards = [by_place[place] for place in range(len(asked))]
    return [_shown(rewarder, call, reward) for reward in rewards], rewards


def _shown(rewarder: Rewarder, call: Call, result: Reward) -> Any:
    name = call.query.get("key")
    return {**result.facts(rewarder.judge.label), name: result.value} if name else result.value


async def get_reward(rewarder: Rewarder, call: Call) -> Answered:
    """`/get_reward`, for OpenRLHF: answer {query, prompts, labels} with {rewards, scores, extra_logs}.

    A query is prompt and response as one text. `rubrics` may hold a list of criteria for each query.
    """
    body = call.fields
    queries = list_of(body, "query")
    columns = {name: body.get(name) or [None] * len(queries) for name in ("prompts", "rubrics")}
    if not all(isinstance(column, list) and len(column) == len(queries) for column in columns.values()):
        raise RefusalError(422, "'query', 'prompts' and 'rubrics' are not lists of one length")
    asked = []
    for query, given, rubrics in zip(queries, *columns.values(), strict=True):
        prompt, response = split_query(query, given)
        asked.append(asked_of(rewarder, call, {**body, "rubrics": rubrics}, prompt, response))
    rewards = await rewarder.rewards(asked)
    values, numbers = [reward.value for reward in rewards], [reward.numbers() for reward in rewards]
    logs = {name: [row[name] for row in numbers] for name in numbers[0]}
    return {"rewards": values, "scores": values, "extra_logs": logs}, rewards


def split_query(query: Any, given: Any) -> tuple[Prompt, str]:
    """Return prompt and response of a query; RefusalError if the end of the prompt is unknown."""
    if given and isinstance(given, str) and isinstance(query, str) and given in query:
        return conversation(given), without_end(query[query.index(given) + len(given) :])
    return split_turns(query)


def split_turns(value: Any) -> tuple[Prompt, str]:
    """Return prompt and response of messages, or of a text with a chat template's marks; RefusalError (422)."""
    turns = conversation(value)
    if len(turns) < 2 or turns[-1].role != "assistant":
        hint = "send prompts, messages, or a chat template's text with its marks"
        raise RefusalError(422, "an input does not end with a response to its prompt", hint=hint)
    return turns[:-1], turns[-1].content


async def rerank(rewarder: Rewarder, call: Call) -> Answered:
    """Answer a query and documents with the documents by score, best first; those without a verdict come last."""
    body = call.fields
    tei = "texts" in body and "documents" not in body
    prompt = conversation(required(body, "query"))
    documents = [_document(document) for document in list_of(body, "texts" if tei else "documents")]
    top = body.get("top_n") or body.get("top_k") or len(documents)
    if not isinstance(top, int) or top < 1:
        raise RefusalError(422, f"top_n is a number from 1, not {str(top)[:20]!r}")
    if rubrics := rubrics_of(body):
        rewards = await rewarder.rewards([Asked(prompt=prompt, response=text, rubrics=rubrics) for text in documents])
    else:
        rewards, _ = await rewarder.among(prompt, documents)
    order = sorted(range(len(documents)), key=lambda n: (bool(rewards[n].reason), -rewards[n].value, n))[:top]
    shown = body.get("return_text", False) if tei else body.get("return_documents") is not False
    texts = [{"text": documents[n]} if shown else {} for n in order]
    if tei:
        return [{"index": n, "score": rewards[n].value, **text} for n, text in zip(order, texts, strict=True)], rewards
    label = rewarder.judge.label
    rows = [{"index": n, "relevance_score": rewards[n].value, **rewards[n].facts(label)} for n in order]
    results = [{**row, "document": text} if shown else row for row, text in zip(rows, texts, strict=True)]
    return {"id": f"rerank-{secrets.token_hex(8)}", "object": "rerank", "model": label, "results": results}, rewards


async def infinity(rewarder: Rewarder, call: Call) -> Answered:
    """Answer as `rerank`, with documents as plain texts, which clients of Infinity expect."""
    answer, rewards = await rerank(rewarder, call)
    for row in answer["results"]:
        if "document" in row:
            row["document"] = row["document"]["text"]
    return answer, rewards


async def score(rewarder: Rewarder, call: Call) -> Answered:
    """Answer one query and documents, or as many queries as documents, with a score for each document."""
    body = call.fields
    names = next((names for names in SIDES if all(body.get(name) for name in names)), None)
    if names is None:
        hint = "send queries and documents, or text_1 and text_2"
        raise RefusalError(422, "the body has no query and documents", hint=hint)
    queries, documents = (list_of(body, name) for name in names)
    queries = queries * len(documents) if len(queries) == 1 else queries
    if len(queries) != len(documents):
        raise RefusalError(422, f"{len(queries)} queries do not match {len(documents)} documents")
    rubrics = rubrics_of(body)
    pairs = zip(map(conversation, queries), map(_document, documents), strict=True)
    rewards = await rewarder.rewards([Asked(prompt=prompt, response=text, rubrics=rubrics) for prompt, text in pairs])
    rows = [{"object": "score", "score": reward.value} for reward in rewards]
    return _listed(rewarder, "score", rows, rewards)


async def classify(rewarder: Rewarder, call: Call) -> Answered:
    """Answer conversations that end with a response with one class each, whose probability is the score."""
    body = call.fields
    inputs = [list_of(body, "messages")] if "messages" in body else list_of(body, "input")
    rubrics = rubrics_of(body)
    asked = [Asked(prompt=prompt, response=text, rubrics=rubrics) for prompt, text in map(split_turns, inputs)]
    rewards = await rewarder.rewards(asked)
    rows = [{"label": "svr", "probs": [reward.value], "num_classes": 1} for reward in rewards]
    return _listed(rewarder, "classify", rows, rewards)


def _listed(rewarder: Rewarder, kind: str, rows: Sequence[Mapping[str, Any]], rewards: Sequence[Reward]) -> Answered:
    label = rewarder.judge.label
    data = [
        {"index": n, **row, **reward.facts(label)} for n, (row, reward) in enumerate(zip(rows, rewards, strict=True))
    ]
    head = {"id": f"{kind}-{secrets.token_hex(8)}", "object": "list", "created": int(time.time()), "model": label}
    return {**head, "data": data}, rewards


def _document(document: Any) -> str:
    text = document.get("text") if isinstance(document, Mapping) else document
    if not isinstance(text, str):
        raise RefusalError(422, "a document is a text, or has one as 'text'")
    return text
