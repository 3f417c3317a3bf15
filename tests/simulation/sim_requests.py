"""Chat requests as the judges write them, built by hand, and small readers for the replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from endpoint import SimServer

from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.world import PlantedPair, World

TAG = "0123456789abcdef"
MODEL = "gpt-oss-120b"


def fence(name: str, text: str, tag: str = TAG) -> str:
    """Return a fenced text."""
    return f"<<svr:{tag}:{name}>>\n{text}\n<<svr:{tag}:END>>"


def body(system: str, user: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a chat request."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return {"model": MODEL, "messages": messages, "temperature": 0, **fields}


def listing(rubrics: list[str]) -> str:
    """Return rubrics one a line, R1 first."""
    return "Rubrics:\n" + "\n".join(f"R{place}: {text}" for place, text in enumerate(rubrics, 1))


def compare(prompt: str, a: str, b: str, rubrics: list[str], *, overall: bool = False, **fields: Any) -> dict[str, Any]:
    """Return a pairwise judging request."""
    keys = "rubric_comparisons" + (" and preferred_candidate" if overall else "")
    user = "\n\n".join(
        [fence("PROMPT", prompt), fence("RESPONSE_A", a), fence("RESPONSE_B", b), listing(rubrics), "Reply with JSON."]
    )
    return body(f"Judge the candidates. Give {keys}.", user, **fields)


def direct(prompt: str, a: str, b: str, **fields: Any) -> dict[str, Any]:
    """Return a request for a verdict without rubrics."""
    user = "\n\n".join([fence("PROMPT", prompt), fence("RESPONSE_A", a), fence("RESPONSE_B", b)])
    return body("Which candidate is better? End with [[A]] or [[B]].", user, **fields)


def induce(prompt: str, chosen: str, rejected: str | None, **fields: Any) -> dict[str, Any]:
    """Return an induction request; without `rejected`, a descriptive one."""
    parts = [fence("PROMPT", prompt), fence("CHOSEN", chosen)]
    parts += [] if rejected is None else [fence("REJECTED", rejected)]
    return body("Answer with contrastive_rubrics.", "\n\n".join(parts), **fields)


def write(prompt: str, **fields: Any) -> dict[str, Any]:
    """Return a request for rubrics from the prompt alone."""
    return body("Answer with rubrics and rubric_note.", fence("PROMPT", prompt), **fields)


def probe(prompt: str, chosen: str, **fields: Any) -> dict[str, Any]:
    """Return an adversarial probe request."""
    return body("Write a worse one.", f"{fence('PROMPT', prompt)}\n\n{fence('CHOSEN', chosen)}", **fields)


def score(prompt: str, response: str, rubrics: list[str], **fields: Any) -> dict[str, Any]:
    """Return a pointwise request."""
    user = "\n\n".join([fence("PROMPT", prompt), fence("RESPONSE", response), listing(rubrics)])
    return body("Answer with rubric_scores.", user, **fields)


def rephrase(prompt: str, rubrics: list[str], **fields: Any) -> dict[str, Any]:
    """Return a request to put rubrics in the words of a prompt."""
    user = "\n\n".join([fence("PROMPT", prompt), listing(rubrics)])
    return body("Answer with rephrased_rubrics.", user, **fields)


def of_pair(world: World, item: PlantedPair, **fields: Any) -> dict[str, Any]:
    """Return a judging request on the criteria that the pair's type cares about."""
    pair = item.pair
    rubrics = [CRITERIA[number].rubric for number in world.kinds[item.kind].cares]
    return compare(pair.prompt[0].content, pair.response_a, pair.response_b, rubrics, **fields)


def content(reply: dict[str, Any]) -> str:
    """Return the text of the first choice."""
    text = reply["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text


def payload(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object that a reply consists of."""
    value = json.loads(content(reply))
    assert isinstance(value, dict)
    return value


def verdicts(reply: dict[str, Any], rubrics: list[str]) -> dict[str, tuple[str, str]]:
    """Return the two verdicts by rubric text."""
    rows = payload(reply)["rubric_comparisons"]
    return {
        rubrics[int(row["rubric_id"][1:]) - 1]: (row["candidate_a_verdict"], row["candidate_b_verdict"]) for row in rows
    }


async def settle(sim: SimServer, condition: Callable[[SimServer], bool]) -> None:
    """Let the loop run until the condition holds; the test's own timeout is the limit."""
    while not condition(sim):  # noqa: ASYNC110  (the server offers no event for what is waited for)
        await asyncio.sleep(0.002)
