"""Questions for a model judge: typed input in, a request with its reading function out. One function per role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from svr_async.core.pair import Presentation, Prompt, Side
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric
from svr_async.core.verdict import RubricComparison, Verdict
from svr_async.engine.request import Question, Request
from svr_async.judges.brackets import read_brackets
from svr_async.judges.forms import form_of
from svr_async.judges.material import Material, local_ids
from svr_async.judges.profiles import Profile
from svr_async.judges.reply_text import (
    ReadComparisons,
    read_comparisons,
    read_rubrics,
    read_scores,
)
from svr_async.judges.templates import Templates

MAX_WRITTEN_RUBRICS = 10
TOKENS_OF_FORM = 20  # of a JSON answer without its rows: the braces, the nonce, the name of the list
TOKENS_PER_ROW = 60  # 40 of its JSON, and a sentence
TOKENS_PER_SCORE = 13
TOKENS_PER_QUESTION = 20  # a rubric of the judge's own, as a question
WRITTEN_RUBRICS = 5  # of the 4 to 7 that are asked for
TOKENS_OF_TEXT = 150  # a few sentences, as a direct comparison has
TOKENS_OF_REASONING = 400  # before an answer, where the profile names an effort


@dataclass(frozen=True, slots=True)
class QuestionWriter:
    """Writes questions in the words of `templates` for the endpoint of `profile`."""

    profile: Profile
    templates: Templates

    @property
    def reasoning(self) -> int:
        """Tokens that the model is expected to think in before it answers."""
        return TOKENS_OF_REASONING if self.profile.reasoning_effort not in ("", "none") else 0

    def direct(self, shown: Presentation) -> Question[Side]:
        """Ask which response is better, without rubrics (paper `app:prompts`, vanilla judge)."""
        material = Material.pair(shown)
        return Question(
            request=self.request("direct", material),
            parse=partial(read_brackets, nonce=self.signature("direct", material)),
            placeholder=lambda: Side.A,
            expected_tokens=self.reasoning + TOKENS_OF_TEXT,
        )

    def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Question[ReadComparisons]:
        """Ask for verdicts on each rubric; R1…Rk are local ids, in the order given."""
        name = "compare_overall" if overall else "compare"
        material, ids = Material.pair(shown, rubrics, note), local_ids(rubrics)
        nonce = self.signature(name, material)
        return Question(
            request=self.request(name, material),
            parse=partial(read_comparisons, nonce=nonce, ids=ids, overall=overall),
            parse_lenient=partial(read_comparisons, nonce=nonce, ids=ids, overall=overall, repair=True),
            placeholder=partial(_sketch_comparisons, ids),
            expected_tokens=self.reasoning + TOKENS_OF_FORM + TOKENS_PER_ROW * len(rubrics),
        )

    def self_rubrics(self, prompt: Prompt) -> Question[tuple[tuple[str, ...], str]]:
        """Ask for rubrics from the prompt alone (paper `app:prompts`, self-generated rubrics)."""
        material = Material.prompt(prompt)
        nonce = self.signature("self_rubrics", material)
        return Question(
            request=self.request("self_rubrics", material),
            parse=partial(read_rubrics, nonce=nonce, most=MAX_WRITTEN_RUBRICS, longest=MAX_RUBRIC_CHARS),
            parse_lenient=partial(
                read_rubrics, nonce=nonce, most=MAX_WRITTEN_RUBRICS, longest=MAX_RUBRIC_CHARS, repair=True
            ),
            placeholder=lambda: (
                tuple(f"Planned rubric {n}: the response does what the prompt asks." for n in range(WRITTEN_RUBRICS)),
                "",
            ),
            expected_tokens=self.reasoning + TOKENS_OF_FORM + TOKENS_PER_QUESTION * (WRITTEN_RUBRICS + 1),
        )

    def pointwise(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Question[Mapping[str, float]]:
        """Ask for a score of one response on each rubric (paper `sec:analysis_ablation`, pointwise inference)."""
        material, ids = Material.response(prompt, response, rubrics), local_ids(rubrics)
        nonce = self.signature("pointwise", material)
        return Question(
            request=self.request("pointwise", material),
            parse=partial(read_scores, nonce=nonce, ids=ids),
            parse_lenient=partial(read_scores, nonce=nonce, ids=ids, repair=True),
            placeholder=lambda: dict.fromkeys(ids, 0.5),
            expected_tokens=self.reasoning + TOKENS_OF_FORM + TOKENS_PER_SCORE * len(rubrics),
        )

    def request(self, name: str, material: Material) -> Request:
        """Return the request that shows `material` in the words and the layout of the template `name`."""
        template, profile = self.templates[name], self.profile
        form = form_of(name, signed=template.signed)
        return Request(
            endpoint=profile.endpoint,
            model=profile.model,
            messages=profile.placed(material.within(template)),
            max_tokens=profile.max_tokens,
            max_tokens_field=profile.max_tokens_field,
            params=profile.params(structured=form is not None, form=form),
            wire=profile.spoken,
        )

    def signature(self, name: str, material: Material) -> str:
        """Return the nonce that tells a reply's own verdict from what it quotes; "" where the template has none."""
        return material.nonce if self.templates[name].signed else ""


def _sketch_comparisons(ids: Sequence[str]) -> ReadComparisons:
    rows = {local: RubricComparison(local, Verdict.PASS, Verdict.FAIL, Side.A) for local in ids}
    return ReadComparisons(rows, Side.A, ())
