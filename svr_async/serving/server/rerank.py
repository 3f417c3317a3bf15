"""Shapes of rerankers and score APIs: vLLM, Cohere, Jina and Infinity (`documents`), TEI (`texts`).

A rerank compares the documents with each other; scores sum to zero. Score and classify judge each response alone by
the bank, in [0, 1]. With `rubrics` in the body each response has Σ points · satisfied.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.core.pair import Prompt
from svr_async.serving.scores import Reward
from svr_async.serving.server.rewarder import Asked, Rewarder
from svr_async.serving.server.routes import Answered, Call, conversation, list_of, required, rubrics_of
from svr_async.serving.server.settings import RefusalError
from svr_async.serving.texts import as_prompt, templated_turns

SIDES = (("queries", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2"))


async def rerank(rewarder: Rewarder, call: Call) -> Answered:
    """Answer a query and documents with the documents by score, best first; those without a verdict come last."""
    body = call.fields
    tei = "texts" in body and "documents" not in body
    prompt = conversation(required(body, "query"))
    documents = [_text(one) for one in list_of(body, "texts" if tei else "documents")]
    top = body.get("top_n") or body.get("top_k") or len(documents)
    if not isinstance(top, int) or top < 1:
        raise RefusalError(422, f"top_n is a number from 1, not {str(top)[:20]!r}")
    if rubrics := rubrics_of(body):
        rewards = await rewarder.rewards([Asked(prompt=prompt, response=one, rubrics=rubrics) for one in documents])
    else:
        rewards, _ = await rewarder.among(prompt, documents)
    order = sorted(range(len(documents)), key=lambda n: (bool(rewards[n].reason), -rewards[n].value, n))[:top]
    shown = body.get("return_text", False) if tei else body.get("return_documents") is not False
    if tei:
        rows = [{"index": n, "score": rewards[n].value} | ({"text": documents[n]} if shown else {}) for n in order]
        return Answered.of(rows, rewards)
    results = [
        {"index": n, "relevance_score": rewards[n].value, **rewards[n].facts(rewarder.judge.label)}
        | ({"document": {"text": documents[n]}} if shown else {})
        for n in order
    ]
    head = {"id": f"rerank-{secrets.token_hex(8)}", "object": "rerank", "model": rewarder.judge.label}
    return Answered.of({**head, "results": results}, rewards)


async def infinity(rewarder: Rewarder, call: Call) -> Answered:
    """Answer as `rerank`, with documents as plain texts, which clients of Infinity expect."""
    found = await rerank(rewarder, call)
    for row in found.value["results"]:
        if "document" in row:
            row["document"] = row["document"]["text"]
    return found


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
    pairs = zip(map(conversation, queries), map(_text, documents), strict=True)
    rewards = await rewarder.rewards([Asked(prompt=one, response=text, rubrics=rubrics) for one, text in pairs])
    rows = [{"object": "score", "score": one.value} for one in rewards]
    return _listed(rewarder, "score", rows, rewards)


async def classify(rewarder: Rewarder, call: Call) -> Answered:
    """Answer conversations that end with a response with one class each, whose probability is the score."""
    body = call.fields
    inputs = [list_of(body, "messages")] if "messages" in body else list_of(body, "input")
    found, rubrics = [_conversation(one) for one in inputs], rubrics_of(body)
    asked = [Asked(prompt=turns[:-1], response=turns[-1].content, rubrics=rubrics) for turns in found]
    rewards = await rewarder.rewards(asked)
    rows = [{"label": "svr", "probs": [one.value], "num_classes": 1} for one in rewards]
    return _listed(rewarder, "classify", rows, rewards)


def _listed(rewarder: Rewarder, kind: str, rows: Sequence[Mapping[str, Any]], rewards: Sequence[Reward]) -> Answered:
    label = rewarder.judge.label
    data = [{"index": n, **row, **one.facts(label)} for n, (row, one) in enumerate(zip(rows, rewards, strict=True))]
    head = {"id": f"{kind}-{secrets.token_hex(8)}", "object": "list", "created": int(time.time()), "model": label}
    return Answered.of({**head, "data": data}, rewards)


def _text(document: Any) -> str:
    text = document.get("text") if isinstance(document, Mapping) else document
    if not isinstance(text, str):
        raise RefusalError(422, "a document is a text, or has one as 'text'")
    return text


def _conversation(given: Any) -> Prompt:
    turns = templated_turns(given) if isinstance(given, str) else as_prompt(given)
    if len(turns) < 2 or turns[-1].role != "assistant":
        hint = "send messages, or a chat template's text with its marks"
        raise RefusalError(422, "an input does not end with a response", hint=hint)
    return turns
