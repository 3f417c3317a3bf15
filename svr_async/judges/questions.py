"""Questions for a model judge: typed input in, a request with its reading function out. One function per role."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import orjson
from msgspec import structs

from svr_async.core.pair import PreferencePair, Presentation, Prompt, Side, prompt_text
from svr_async.core.rubric import FACETS, IMPORTANCES, MAX_RUBRIC_CHARS, Rubric
from svr_async.core.verdict import RubricComparison, Verdict
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.wires import Form, Params
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Comparisons, CriteriaQuestion, Preference, WrittenRubrics
from svr_async.judges.reader import by_rubric, json_values, read_better, read_direct, read_list, read_verdict
from svr_async.judges.templates import Material, Templates, clean

T = TypeVar("T")
MAX_WRITTEN_RUBRICS = 10
MAX_INDUCED = 6
MOST_KNOWN, MOST_NEW = 200, 40  # criteria listed in one request
TOKENS_OF_FORM = 20  # of a JSON answer without its rows: the braces and the name of the list
TOKENS_PER_ROW = 60  # 40 of its JSON, and a sentence
TOKENS_PER_SCORE = 13
TOKENS_PER_RUBRIC = 50
TOKENS_PER_WORDING = 32
TOKENS_PER_QUESTION = 20  # a rubric that the judge writes, as a question
TOKENS_PER_LABEL = 8  # two labels, quotes, a colon
WRITTEN_RUBRICS = 5  # of the 4 to 7 that are asked for
TOKENS_OF_TEXT = 150  # a few sentences, as a direct comparison has
TOKENS_OF_REASONING = 400  # before an answer, if the profile names an effort

# --- the schemas of JSON replies: OpenAI's, Anthropic's, vLLM's and llama.cpp's common dialect -----------------------

_TEXT: dict[str, Any] = {"type": "string"}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _object(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_VERDICT, _SIDE = _one_of("pass", "fail"), _one_of("A", "B")
_ROWS = _list(
    _object(rubric_id=_TEXT, reason=_TEXT, candidate_a_verdict=_VERDICT, candidate_b_verdict=_VERDICT, better=_SIDE)
)
_INDUCED = _object(
    contrastive_rubrics=_list(
        _object(facet=_one_of(*FACETS), importance=_one_of(*IMPORTANCES), rubric=_TEXT, grounding=_TEXT)
    )
)
_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "compare": _object(rubric_comparisons=_ROWS),
    "compare_overall": _object(rubric_comparisons=_ROWS, preferred_candidate=_SIDE),
    "self_rubrics": _object(rubrics=_list(_TEXT), rubric_note=_TEXT),
    "pointwise": _object(rubric_scores=_list(_object(rubric_id=_TEXT, score={"type": "number"}))),
    "contrastive": _INDUCED,
    "descriptive": _INDUCED,
    "rrd_rubrics": _object(proposed_rubrics=_list(_TEXT)),
    "rrd_decompose": _object(finer_rubrics=_list(_TEXT)),
    "rephrase": _object(rephrased_rubrics=_list(_object(rubric_id=_TEXT, rubric=_TEXT))),
}
FORMS: Mapping[str, Form] = MappingProxyType(
    {name: Form(name=name, schema=orjson.dumps(schema)) for name, schema in _SCHEMAS.items()}
)
"""JSON schemas by prompt. Keys stand in the order in which they are written: a reason before its verdict."""


@dataclass(frozen=True, slots=True)
class QuestionWriter:
    """Writes questions with the prompts of `templates` for the endpoint of `profile`."""

    profile: Profile
    templates: Templates
    _params: dict[str, Params] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def reasoning(self) -> int:
        """Tokens that the model is expected to think in before it answers."""
        return TOKENS_OF_REASONING if self.profile.reasoning_effort not in ("", "none") else 0

    def question(
        self, name: str, material: Material, read: Callable[[str], T], planned: Callable[[], T], tokens: int
    ) -> Question[T]:
        """Return the question that shows `material` with the template `name`, and expects `tokens` as an answer."""
        request, expected = self.request(name, material), self.reasoning + tokens
        return Question(request=request, parse=read, placeholder=planned, expected_tokens=expected)

    def direct(self, shown: Presentation) -> Question[Preference]:
        """Ask which response is better, without rubrics (paper `app:prompts`, vanilla judge)."""
        read = partial(read_direct, quoted=(shown.response_a, shown.response_b))
        return self.question("direct", Material.pair(shown), read, lambda: Preference(margin=1.0), TOKENS_OF_TEXT)

    def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Question[Comparisons]:
        """Ask for verdicts on each rubric; R1…Rk are local ids, in the order given."""
        quoted = shown.response_a, shown.response_b
        return self.question(
            "compare_overall" if overall else "compare",
            Material.pair(shown, rubrics, note),
            partial(read_comparisons, rubrics=rubrics, overall=overall, quoted=quoted),
            partial(_planned_comparisons, rubrics),
            TOKENS_OF_FORM + TOKENS_PER_ROW * len(rubrics),
        )

    def self_rubrics(self, prompt: Prompt) -> Question[WrittenRubrics]:
        """Ask for rubrics from the prompt alone (paper `app:prompts`, self-generated rubrics)."""
        planned = [f"Planned rubric {n}: the response does what the prompt asks." for n in range(WRITTEN_RUBRICS)]
        tokens = TOKENS_OF_FORM + TOKENS_PER_QUESTION * (WRITTEN_RUBRICS + 1)
        material = Material({"PROMPT": prompt_text(prompt)})
        return self.question("self_rubrics", material, read_written, lambda: _written(planned), tokens)

    def pointwise(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Question[Mapping[str, float]]:
        """Ask for a score of one response on each rubric (paper `sec:analysis_ablation`, pointwise inference)."""
        return self.question(
            "pointwise",
            Material({"PROMPT": prompt_text(prompt), "RESPONSE": response}, rubrics),
            partial(read_scores, rubrics=rubrics, quoted=(response,)),
            lambda: dict.fromkeys([rubric.id for rubric in rubrics], 0.5),
            TOKENS_OF_FORM + TOKENS_PER_SCORE * len(rubrics),
        )

    def induction(self, pair: PreferencePair, *, contrastive: bool) -> Question[tuple[Rubric, ...]]:
        """Ask for 2 to 6 rubrics (paper `app:prompts`); the descriptive form does not show the rejected response."""
        asked = self.question(
            "contrastive" if contrastive else "descriptive",
            Material.preference(pair, rejected=contrastive),
            read_induced,
            lambda: (Rubric(text="Planned rubric: the response does what the prompt asks."),),
            TOKENS_OF_FORM + 4 * TOKENS_PER_RUBRIC,
        )
        fixed = self.reasoning + TOKENS_OF_FORM
        return structs.replace(asked, expected_of=lambda rubrics: fixed + len(rubrics) * TOKENS_PER_RUBRIC)

    def probe(self, pair: PreferencePair) -> Question[str]:
        """Ask for a plausible but worse response (paper `app:prompts`, adversarial probe)."""
        material = Material.preference(pair, rejected=False)
        return self.question("probe", material, read_text, lambda: pair.rejected, len(pair.chosen) // 4)

    def rephrase(self, prompt: Prompt, rubrics: Sequence[Rubric]) -> Question[Mapping[str, str]]:
        """Ask for wordings that fit a prompt (paper `sec:margin`); R1…Rk are local ids, in the order given."""
        return self.question(
            "rephrase",
            Material({"PROMPT": prompt_text(prompt)}, rubrics),
            partial(read_rephrased, rubrics=rubrics),
            lambda: {rubric.id: rubric.text for rubric in rubrics},
            TOKENS_OF_FORM + TOKENS_PER_WORDING * len(rubrics),
        )

    def same_criterion(self, asked: CriteriaQuestion) -> Question[Mapping[str, str | None]]:
        """Ask which new criteria repeat listed ones."""
        material = Material({"KNOWN": _labelled("K", asked.known), "NEW": _labelled("N", asked.new)})
        return self.question(
            "same_criterion", material, partial(read_same, asked), dict, TOKENS_PER_LABEL * (2 + len(asked.new))
        )

    def request(self, name: str, material: Material) -> Request:
        """Return the request that shows `material` in the words and the layout of the template `name`."""
        params = self._params.get(name)
        if params is None:
            form = FORMS.get(name)
            params = self._params[name] = self.profile.params(structured=form is not None, form=form)
        return self.profile.request(material.within(self.templates[name]), params)


def read_written(text: str) -> WrittenRubrics:
    """Read the rubrics that a judge wrote, and its note on the expected answer."""
    texts, held = read_texts(text, "rubrics", MAX_WRITTEN_RUBRICS)
    return _written(texts, one_line(held.get("rubric_note")))


def _written(texts: Iterable[str], note: str = "") -> WrittenRubrics:
    return WrittenRubrics(rubrics=tuple(Rubric(text=text) for text in texts), note=note)


def read_texts(text: str, key: str, most: int) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """Read a list of rubric texts, each as one line, at most `most`; also return the object that holds it."""
    rows, held = read_list(text, key)
    texts = [one_line(row.get("rubric", row.get("text")) if isinstance(row, dict) else row) for row in rows]
    kept = tuple(dict.fromkeys(one for one in texts if 0 < len(one) <= MAX_RUBRIC_CHARS))[:most]
    if not kept:
        raise ReplyRejectedError(f'Your answer held no rubric: "{key}" is a list of texts.')
    return kept, held


def one_line(value: Any) -> str:
    """Return a text as one line; "" for anything else, and for a copied placeholder such as `<rubric>`."""
    text = " ".join(clean(value).split()) if isinstance(value, str) else ""
    return "" if re.fullmatch(r"<[^<>]*>", text) else text


def read_comparisons(text: str, rubrics: Sequence[Rubric], *, overall: bool, quoted: Sequence[str] = ()) -> Comparisons:
    """Read `rubric_comparisons`; with `overall` also `preferred_candidate`. Rubrics without a clear row are absent."""
    rows, held = read_list(text, "rubric_comparisons", quoted)
    found = by_rubric(rows, rubrics, _comparison, lambda row: (row.a, row.b, row.better))
    if not overall and not found:
        raise ReplyRejectedError("No entry of your answer had a known rubric_id, verdicts pass/fail and better A/B.")
    try:
        preferred = read_better(held["preferred_candidate"]) if overall else None
    except (KeyError, ValueError):
        raise ReplyRejectedError('Your answer lacked "preferred_candidate", which is "A" or "B".') from None
    return Comparisons(rows=tuple(found.values()), preferred=preferred)


def _comparison(row: Mapping[str, Any], rubric: Rubric) -> RubricComparison | None:
    a, b = read_verdict(row.get("candidate_a_verdict")), read_verdict(row.get("candidate_b_verdict"))
    reason = row.get("reason")
    if a is None or b is None:
        return None
    try:
        better = read_better(row.get("better", ""))
    except ValueError:
        return None
    return RubricComparison(rubric.id, a, b, better, reason if isinstance(reason, str) else "")


def read_scores(text: str, rubrics: Sequence[Rubric], quoted: Sequence[str] = ()) -> dict[str, float]:
    """Read `rubric_scores` as rubric id → score in [0, 1]; a verdict in words counts as 0 or 1."""
    rows, _ = read_list(text, "rubric_scores", quoted)
    found = by_rubric(rows, rubrics, _score, lambda score: score)
    if not found:
        raise ReplyRejectedError("No entry of your answer had a known rubric_id with a score from 0 to 1.")
    return found


def _score(row: Mapping[str, Any], _: Rubric) -> float | None:
    value = row.get("score")
    verdict = read_verdict(value)
    try:
        score = float(value or 0) if verdict is None else float(verdict is Verdict.PASS)
    except (TypeError, ValueError):
        return None
    return score if value is not None and 0 <= score <= 1 else None


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
        facet=entry["facet"] if entry.get("facet") in FACETS else "",
        importance=entry["importance"] if entry.get("importance") in IMPORTANCES else "",
        grounding=one_line(entry.get("grounding"))[:MAX_RUBRIC_CHARS],
    )


def read_rephrased(text: str, rubrics: Sequence[Rubric]) -> dict[str, str]:
    """Read `rephrased_rubrics` as rubric id → new wording; left out are rubrics without one clear wording.

    If two rubrics get the same wording, both are left out. ReplyRejectedError if nothing remains.
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


def read_text(text: str) -> str:
    """Read a plain text reply; ReplyRejectedError where it is empty."""
    if not text.strip():
        raise ReplyRejectedError("Your answer was empty.")
    return clean(text.strip())


def read_same(asked: CriteriaQuestion, reply: str) -> dict[str, str | None]:
    """Return the label that each new label repeats, or None; unreadable entries are left out.

    ReplyRejectedError if the reply holds no object `same_as` at all.
    """
    held = [value.get("same_as") for value, _, _ in json_values(reply) if isinstance(value, dict)]
    found = [one for one in held if isinstance(one, dict)]
    if not found:
        raise ReplyRejectedError('Your answer held no JSON object with a "same_as" object.')
    new = [f"N{number}" for number in range(1, len(asked.new) + 1)]
    labels = [None, *new, *(f"K{number}" for number in range(1, len(asked.known) + 1))]
    last = found[-1]
    return {name: last[name] for name in new if name in last and last[name] in labels and last[name] != name}


def _labelled(letter: str, texts: tuple[str, ...]) -> str:
    return "\n".join(f"{letter}{number}: {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def _planned_comparisons(rubrics: Sequence[Rubric]) -> Comparisons:
    rows = tuple([RubricComparison(rubric.id, Verdict.PASS, Verdict.FAIL, Side.A) for rubric in rubrics])
    return Comparisons(rows=rows, preferred=Side.A)
