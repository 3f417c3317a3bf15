"""The model as an author: contrastive induction, descriptive induction, and the adversarial probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from svr_async.engine.engine import Engine
from svr_async.engine.request import Question, ReplyRejectedError
from svr_async.judges.fence import clean, fence, nonce_of
from svr_async.judges.model import without_value
from svr_async.judges.protocol import Answer
from svr_async.judges.questions import TOKENS_OF_REASONING, QuestionWriter
from svr_async.judges.reading import read_object
from svr_async.vocabulary.pair import PreferencePair, prompt_text
from svr_async.vocabulary.rubric import FACETS, IMPORTANCES, MAX_RUBRIC_CHARS, Rubric

MAX_INDUCED = 6
TOKENS_PER_RUBRIC = 90


@dataclass(frozen=True, slots=True)
class ModelAuthor:
    """An endpoint as an author."""

    engine: Engine
    writer: QuestionWriter

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.writer.profile.name

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Ask for 2 to 6 rubrics (paper `app:prompts`, contrastive feature induction)."""
        done = await self.engine.complete(induction(self.writer, pair, contrastive=contrastive))
        if done.value is None:
            return without_value(done)
        return Answer(value=done.value, requests=(done.key,))

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Ask for a plausible but worse response (paper `app:prompts`, adversarial probe)."""
        done = await self.engine.complete(probing(self.writer, pair))
        if done.value is None:
            return without_value(done)
        return Answer(value=done.value, requests=(done.key,))


def induction(writer: QuestionWriter, pair: PreferencePair, *, contrastive: bool) -> Question[tuple[Rubric, ...]]:
    """Write the question for rubrics; the descriptive form does not show the rejected response."""
    texts = {"PROMPT": prompt_text(pair.prompt), "CHOSEN": pair.chosen}
    if contrastive:
        texts["REJECTED"] = pair.rejected
    nonce, material = _material(texts)
    return Question(
        request=writer.request("contrastive" if contrastive else "descriptive", nonce, material),
        parse=partial(read_induced, nonce=nonce),
        salvage=partial(read_induced, nonce=nonce, repair=True),
        sketch=lambda: (Rubric(text="Planned rubric: the response does what the prompt asks."),),
        expected_tokens=TOKENS_OF_REASONING + 4 * TOKENS_PER_RUBRIC,
    )


def probing(writer: QuestionWriter, pair: PreferencePair) -> Question[str]:
    """Write the question for a plausible but worse response."""
    nonce, material = _material({"PROMPT": prompt_text(pair.prompt), "CHOSEN": pair.chosen})
    return Question(
        request=writer.request("probe", nonce, material),
        parse=read_text,
        sketch=lambda: pair.rejected,
        expected_tokens=TOKENS_OF_REASONING + len(pair.chosen) // 4,
    )


def _material(texts: Mapping[str, str]) -> tuple[str, str]:
    cleaned = {name: clean(text) for name, text in texts.items()}
    nonce = nonce_of(list(cleaned.values()))
    return nonce, "\n\n".join(fence(nonce, name, text) for name, text in cleaned.items())


def read_induced(text: str, nonce: str, *, repair: bool = False) -> tuple[Rubric, ...]:
    """Read `contrastive_rubrics`: at most six with a text of at most 512 characters; unknown labels are left empty."""
    found = read_object(text, "contrastive_rubrics", nonce, repair=repair)
    rubrics = [rubric for rubric in map(_rubric, found.value["contrastive_rubrics"]) if rubric is not None]
    if not rubrics:
        raise ReplyRejectedError('No entry of "contrastive_rubrics" had a "rubric" text.')
    return tuple({rubric.id: rubric for rubric in rubrics}.values())[:MAX_INDUCED]


def _rubric(entry: Any) -> Rubric | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("rubric"), str):
        return None
    text = " ".join(clean(entry["rubric"]).split())
    if not text or len(text) > MAX_RUBRIC_CHARS:
        return None
    grounding = entry.get("grounding")
    return Rubric(
        text=text,
        facet=_known(entry.get("facet"), FACETS),
        importance=_known(entry.get("importance"), IMPORTANCES),
        grounding=" ".join(clean(grounding).split())[:MAX_RUBRIC_CHARS] if isinstance(grounding, str) else "",
    )


def _known(value: Any, allowed: tuple[str, ...]) -> str:
    return value if isinstance(value, str) and value in allowed else ""


def read_text(text: str) -> str:
    """Read a plain text reply; ReplyRejectedError where it is empty."""
    if not text.strip():
        raise ReplyRejectedError("Your answer was empty.")
    return clean(text.strip())
