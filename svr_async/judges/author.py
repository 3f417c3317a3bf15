"""The model as an author: contrastive and descriptive induction, the adversarial probe, rubrics fitted to a prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from svr_async.core.pair import PreferencePair, Prompt
from svr_async.core.rubric import FACETS, IMPORTANCES, MAX_RUBRIC_CHARS, Rubric
from svr_async.engine.request import Question, ReplyRejectedError
from svr_async.judges.fence import clean
from svr_async.judges.material import Material, local_ids
from svr_async.judges.model import without_value
from svr_async.judges.protocol import Answer
from svr_async.judges.questions import TOKENS_OF_FORM, QuestionWriter
from svr_async.judges.reply_text import one_line, read_object

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

MAX_INDUCED = 6
TOKENS_PER_RUBRIC = 50
TOKENS_PER_WORDING = 32


@dataclass(frozen=True, slots=True)
class ModelAuthor:
    """An endpoint as an author."""

    engine: CallEngine
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

    async def rephrase(self, prompt: Prompt, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, str]]:
        """Ask for rubrics in words that fit a prompt, before any response is seen: texts by id (paper `sec:margin`).

        A rubric whose new wording the reply does not give, or not beyond doubt, is absent.
        """
        done = await self.engine.complete(rephrasing(self.writer, prompt, rubrics))
        if done.value is None:
            return without_value(done)
        named = zip(local_ids(rubrics), rubrics, strict=True)
        texts = {rubric.id: done.value[local] for local, rubric in named if local in done.value}
        return Answer(value=texts, requests=(done.key,))


def induction(writer: QuestionWriter, pair: PreferencePair, *, contrastive: bool) -> Question[tuple[Rubric, ...]]:
    """Write the question for rubrics; the descriptive form does not show the rejected response."""
    name, material = "contrastive" if contrastive else "descriptive", Material.preference(pair, rejected=contrastive)
    nonce = writer.signature(name, material)
    return Question(
        request=writer.request(name, material),
        parse=partial(read_induced, nonce=nonce),
        parse_lenient=partial(read_induced, nonce=nonce, repair=True),
        placeholder=lambda: (Rubric(text="Planned rubric: the response does what the prompt asks."),),
        expected_tokens=writer.reasoning + TOKENS_OF_FORM + 4 * TOKENS_PER_RUBRIC,
        expected_of=lambda rubrics: writer.reasoning + TOKENS_OF_FORM + len(rubrics) * TOKENS_PER_RUBRIC,
    )


def probing(writer: QuestionWriter, pair: PreferencePair) -> Question[str]:
    """Write the question for a plausible but worse response."""
    return Question(
        request=writer.request("probe", Material.preference(pair, rejected=False)),
        parse=read_text,
        placeholder=lambda: pair.rejected,
        expected_tokens=writer.reasoning + len(pair.chosen) // 4,
    )


def rephrasing(writer: QuestionWriter, prompt: Prompt, rubrics: Sequence[Rubric]) -> Question[Mapping[str, str]]:
    """Write the question for wordings that fit a prompt; R1…Rk are local ids, in the order given."""
    material, ids = Material.prompt(prompt, rubrics), local_ids(rubrics)
    nonce = writer.signature("rephrase", material)
    return Question(
        request=writer.request("rephrase", material),
        parse=partial(read_rephrased, nonce=nonce, ids=ids),
        parse_lenient=partial(read_rephrased, nonce=nonce, ids=ids, repair=True),
        placeholder=lambda: {local: rubric.text for local, rubric in zip(ids, rubrics, strict=True)},
        expected_tokens=writer.reasoning + TOKENS_OF_FORM + TOKENS_PER_WORDING * len(rubrics),
    )


def read_induced(text: str, nonce: str, *, repair: bool = False) -> tuple[Rubric, ...]:
    """Read `contrastive_rubrics`: at most six with a text of at most 512 characters; unknown labels are left empty."""
    found = read_object(text, "contrastive_rubrics", nonce, repair=repair)
    rubrics = [rubric for rubric in map(_rubric, found.value["contrastive_rubrics"]) if rubric is not None]
    if not rubrics:
        raise ReplyRejectedError('No entry of "contrastive_rubrics" had a "rubric" text.')
    return tuple({rubric.id: rubric for rubric in rubrics}.values())[:MAX_INDUCED]


def _rubric(entry: Any) -> Rubric | None:
    text = one_line(entry.get("rubric")) if isinstance(entry, Mapping) else ""
    if not text or len(text) > MAX_RUBRIC_CHARS:
        return None
    return Rubric(
        text=text,
        facet=_known(entry.get("facet"), FACETS),
        importance=_known(entry.get("importance"), IMPORTANCES),
        grounding=one_line(entry.get("grounding"))[:MAX_RUBRIC_CHARS],
    )


def read_rephrased(text: str, nonce: str, ids: Sequence[str], *, repair: bool = False) -> dict[str, str]:
    """Read `rephrased_rubrics` as local id → new wording, of those that are beyond doubt.

    Left out are rubrics named twice, named out of order (which id goes with which text is then uncertain), without a
    text of at most 512 characters, or with the same text as another. ReplyRejectedError where none is left.
    """
    found = read_object(text, "rephrased_rubrics", nonce, repair=repair)
    entries = [entry for entry in map(_wording, found.value["rephrased_rubrics"]) if entry is not None]
    times = Counter(local for local, _ in entries)
    rows = [(local, wording) for local, wording in entries if local in ids and times[local] == 1]
    places, same = [ids.index(local) for local, _ in rows], Counter(wording.casefold() for _, wording in rows)
    kept = {
        local: wording
        for n, (local, wording) in enumerate(rows)
        if wording and same[wording.casefold()] == 1
        if max(places[:n], default=-1) < places[n] < min(places[n + 1 :], default=len(ids))
    }
    if not kept:
        raise ReplyRejectedError('No entry of "rephrased_rubrics" had a known rubric_id in order and a "rubric" text.')
    return kept


def _wording(entry: Any) -> tuple[str, str] | None:
    """Return local id and wording of an entry; the wording is empty where there is none to use."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("rubric_id"), str):
        return None
    wording = one_line(entry.get("rubric"))
    return entry["rubric_id"].strip().upper(), wording if len(wording) <= MAX_RUBRIC_CHARS else ""


def _known(value: Any, allowed: tuple[str, ...]) -> str:
    return value if isinstance(value, str) and value in allowed else ""


def read_text(text: str) -> str:
    """Read a plain text reply; ReplyRejectedError where it is empty."""
    if not text.strip():
        raise ReplyRejectedError("Your answer was empty.")
    return clean(text.strip())
