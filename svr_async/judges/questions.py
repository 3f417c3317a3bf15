"""Questions for a model judge: typed input in, a request with its reading function out. One function per role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from svr_async.engine.request import Question, Request
from svr_async.judges.fence import clean, fence, nonce_of
from svr_async.judges.forms import FORMS
from svr_async.judges.profile import Profile
from svr_async.judges.reply_text import (
    ReadComparisons,
    read_brackets,
    read_comparisons,
    read_rubrics,
    read_scores,
)
from svr_async.judges.templates import Templates
from svr_async.vocabulary.pair import Presentation, Prompt, Side, prompt_text
from svr_async.vocabulary.rubric import MAX_RUBRIC_CHARS, Rubric
from svr_async.vocabulary.verdict import RubricComparison, Verdict

MAX_WRITTEN_RUBRICS = 10
TOKENS_PER_ROW = 50  # some 30 of its JSON, and a sentence
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
        return TOKENS_OF_REASONING if self.profile.reasoning_effort else 0

    def direct(self, shown: Presentation) -> Question[Side]:
        """Ask which response is better, without rubrics (paper `app:prompts`, vanilla judge)."""
        nonce, material = pair_material(shown)
        request = self.request("direct", nonce, material)
        return Question(
            request=request,
            parse=read_brackets,
            sketch=lambda: Side.A,
            expected_tokens=self.reasoning + TOKENS_OF_TEXT,
        )

    def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Question[ReadComparisons]:
        """Ask for verdicts on each rubric; R1…Rk are local ids, in the order given."""
        nonce, material = pair_material(shown, extra=note)
        ids = local_ids(rubrics)
        listed = listing(rubrics)
        if note:
            listed = f"{listed}\n\nNote: {clean(note)}"
        request = self.request("compare_overall" if overall else "compare", nonce, f"{material}\n\n{listed}")
        return Question(
            request=request,
            parse=partial(read_comparisons, nonce=nonce, ids=ids, overall=overall),
            salvage=partial(read_comparisons, nonce=nonce, ids=ids, overall=overall, repair=True),
            sketch=partial(_sketch_comparisons, ids),
            expected_tokens=self.reasoning + TOKENS_PER_ROW * len(rubrics),
        )

    def self_rubrics(self, prompt: Prompt) -> Question[tuple[tuple[str, ...], str]]:
        """Ask for rubrics from the prompt alone (paper `app:prompts`, self-generated rubrics)."""
        text = clean(prompt_text(prompt))
        nonce = nonce_of([text])
        request = self.request("self_rubrics", nonce, fence(nonce, "PROMPT", text))
        return Question(
            request=request,
            parse=partial(read_rubrics, nonce=nonce, most=MAX_WRITTEN_RUBRICS, longest=MAX_RUBRIC_CHARS),
            salvage=partial(read_rubrics, nonce=nonce, most=MAX_WRITTEN_RUBRICS, longest=MAX_RUBRIC_CHARS, repair=True),
            sketch=lambda: (
                tuple(f"Planned rubric {n}: the response does what the prompt asks." for n in range(6)),
                "",
            ),
            expected_tokens=self.reasoning + 200,
        )

    def pointwise(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Question[Mapping[str, float]]:
        """Ask for a score of one response on each rubric (paper `sec:analysis_ablation`, pointwise inference)."""
        nonce, material = response_material(prompt, response)
        ids = local_ids(rubrics)
        return Question(
            request=self.request("pointwise", nonce, f"{material}\n\n{listing(rubrics)}"),
            parse=partial(read_scores, nonce=nonce, ids=ids),
            salvage=partial(read_scores, nonce=nonce, ids=ids, repair=True),
            sketch=lambda: dict.fromkeys(ids, 0.5),
            expected_tokens=self.reasoning + 25 * len(rubrics),
        )

    def request(self, name: str, nonce: str, material: str) -> Request:
        """Return the request that opens with the template `name` and shows `material`."""
        template, profile = self.templates[name], self.profile
        form = FORMS.get(name)
        return Request(
            endpoint=profile.endpoint,
            spelled=profile.spelled,
            model=profile.model,
            messages=(("system", template.instructions), ("user", f"{material}\n\n{template.close(nonce)}")),
            max_tokens=profile.max_tokens,
            max_tokens_field=profile.max_tokens_field,
            params=profile.params(structured=form is not None, form=form),
            wire=profile.spoken,
        )


def local_ids(rubrics: Sequence[Rubric]) -> tuple[str, ...]:
    """Return R1…Rk."""
    return tuple(f"R{n}" for n in range(1, len(rubrics) + 1))


def pair_material(shown: Presentation, extra: str = "") -> tuple[str, str]:
    """Return the nonce of a pair and its fenced texts, as requests show them; the nonce is in no `extra` either."""
    prompt, a, b = clean(prompt_text(shown.prompt)), clean(shown.response_a), clean(shown.response_b)
    nonce = nonce_of([prompt, a, b, extra] if extra else [prompt, a, b])
    parts = (fence(nonce, "PROMPT", prompt), fence(nonce, "RESPONSE_A", a), fence(nonce, "RESPONSE_B", b))
    return nonce, "\n\n".join(parts)


def response_material(prompt: Prompt, response: str) -> tuple[str, str]:
    """Return the nonce of one response and its fenced texts."""
    texts = clean(prompt_text(prompt)), clean(response)
    nonce = nonce_of(texts)
    return nonce, f"{fence(nonce, 'PROMPT', texts[0])}\n\n{fence(nonce, 'RESPONSE', texts[1])}"


def listing(rubrics: Sequence[Rubric]) -> str:
    """Return the rubrics as a request shows them: one a line, below a head, with their local ids."""
    lines = (
        f"{local}: {' '.join(clean(rubric.text).split())}"
        for local, rubric in zip(local_ids(rubrics), rubrics, strict=True)
    )
    return "Rubrics:\n" + "\n".join(lines)


def _sketch_comparisons(ids: Sequence[str]) -> ReadComparisons:
    rows = {local: RubricComparison(local, Verdict.PASS, Verdict.FAIL, Side.A) for local in ids}
    return ReadComparisons(rows, Side.A, ())
