"""The model as an author: contrastive and descriptive induction, the adversarial probe, rubrics fitted to a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from svr_async.core.pair import PreferencePair, Prompt, prompt_text
from svr_async.core.rubric import FACETS, IMPORTANCES, MAX_RUBRIC_CHARS, Rubric
from svr_async.engine.request import Question, ReplyRejectedError
from svr_async.judges.material import Material, clean
from svr_async.judges.model import without_value
from svr_async.judges.protocol import Answer
from svr_async.judges.questions import TOKENS_OF_FORM, QuestionWriter, one_line
from svr_async.judges.reader import by_rubric, read_list

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
        return Answer(value=done.value, requests=(done.key,))


def induction(writer: QuestionWriter, pair: PreferencePair, *, contrastive: bool) -> Question[tuple[Rubric, ...]]:
    """Write the question for rubrics; the descriptive form does not show the rejected response."""
    name, material = "contrastive" if contrastive else "descriptive", Material.preference(pair, rejected=contrastive)
    return Question(
        request=writer.request(name, material),
        parse=read_induced,
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
    return Question(
        request=writer.request("rephrase", Material({"PROMPT": prompt_text(prompt)}, rubrics)),
        parse=partial(read_rephrased, rubrics=rubrics),
        placeholder=lambda: {rubric.id: rubric.text for rubric in rubrics},
        expected_tokens=writer.reasoning + TOKENS_OF_FORM + TOKENS_PER_WORDING * len(rubrics),
    )


def read_induced(text: str) -> tuple[Rubric, ...]:
    """Read `contrastive_rubrics`: at most six with a text of at most 512 characters; unknown labels are left empty."""
    rows, _ = read_list(text, "contrastive_rubrics")
    rubrics = [rubric for rubric in map(_rubric, rows) if rubric is not None]
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


def read_rephrased(text: str, rubrics: Sequence[Rubric]) -> dict[str, str]:
    """Read `rephrased_rubrics` as rubric id → new wording; left out are rubrics without one clear wording.

    Two rubrics with the same wording are left out both. ReplyRejectedError if none remains.
    """
    rows, _ = read_list(text, "rephrased_rubrics")
    found = by_rubric(rows, rubrics, _wording, str.casefold)
    same = [wording.casefold() for wording in found.values()]
    kept = {name: wording for name, wording in found.items() if same.count(wording.casefold()) == 1}
    if not kept:
        raise ReplyRejectedError('No entry of "rephrased_rubrics" had a known rubric_id and a "rubric" text.')
    return kept


def _wording(row: Mapping[str, Any], _: Rubric) -> str | None:
    wording = one_line(row.get("rubric"))
    return wording if 0 < len(wording) <= MAX_RUBRIC_CHARS else None


def _known(value: Any, allowed: tuple[str, ...]) -> str:
    return value if isinstance(value, str) and value in allowed else ""


def read_text(text: str) -> str:
    """Read a plain text reply; ReplyRejectedError where it is empty."""
    if not text.strip():
        raise ReplyRejectedError("Your answer was empty.")
    return clean(text.strip())
