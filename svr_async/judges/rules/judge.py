"""The `rules` judge: decides rubrics that are checks, reads constraints out of prompts, and abstains on the rest.

Its methods are async because the protocol is. The work is pure, linear in the length of the texts, and takes about a
millisecond a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import final

from svr_async.core.integrity import Integrity, Marks
from svr_async.core.pair import Presentation, Prompt, Side, user_prompt
from svr_async.core.rubric import Check, CheckValue, Rubric
from svr_async.core.verdict import Contribution, RubricComparison, Verdict
from svr_async.judges.protocol import Answer, Comparisons, Preference, WrittenRubrics
from svr_async.judges.rules.constraints import last_user_turn, prompt_constraints
from svr_async.judges.rules.registry import bound, recognise, rubric_for
from svr_async.judges.rules.safety import seems_harmful
from svr_async.judges.rules.spec import Finding
from svr_async.judges.rules.text import TextView

SAME_DEGREE = 1e-9
MAX_KEPT_CHARS = 100_000
NOTE = "Constraints stated in the prompt; each is decided by a check."

# The general checks decide without a bank. Their weights were fitted (general_checks.py, git history) by logistic
# regression on half of the prompts (by hash) of RMB, a public set of preference pairs. Weights are at least 0, so each
# check keeps its direction; cross-validation within that half chooses their number. They are rounded to 0.05, and those
# below 0.1 dropped. `helps_when_harmless` is set by hand: RMB has almost no harmless prompts that models refuse.
GENERAL: tuple[tuple[str, dict[str, CheckValue], float], ...] = (
    ("refuses_harm", {}, 1.25),
    ("names_concerns", {}, 0.85),
    ("refusal_of_length", {"n": 20}, 0.75),
    ("keeps_one_script", {}, 0.60),
    ("no_profanity", {}, 0.60),
    ("refusal_of_length", {"n": 40}, 0.60),
    ("brackets_in_code", {}, 0.55),
    ("commented_code", {}, 0.45),
    ("bold", {}, 0.40),
    ("fences_named", {}, 0.40),
    ("no_steps_to_harm", {}, 0.40),
    ("bullet_list", {}, 0.35),
    ("closing_offer", {}, 0.35),
    ("table", {}, 0.35),
    ("developed_when_harmless", {"n": 400}, 0.30),
    ("headings", {}, 0.30),
    ("min_words", {"n": 25}, 0.30),
    ("helps_when_harmless", {}, 0.30),
    ("min_numbers", {"n": 3}, 0.25),
    ("own_words", {}, 0.25),
    ("above_grade", {"n": 8}, 0.20),
    ("max_sentence_words", {"n": 22}, 0.20),
    ("no_repetition", {}, 0.20),
    ("code_when_asked", {}, 0.15),
    ("max_sentence_words", {"n": 18}, 0.15),
    ("min_paragraphs", {"n": 3}, 0.15),
    ("rich_vocabulary", {}, 0.15),
    ("above_grade", {"n": 10}, 0.10),
    ("connected", {}, 0.10),
    ("covers_keywords", {"percent": 50}, 0.10),
    ("covers_keywords", {"percent": 75}, 0.10),
    ("keeps_numbers", {}, 0.10),
    ("link", {}, 0.10),
    ("min_paragraphs", {"n": 6}, 0.10),
    ("no_instant_compliance", {}, 0.10),
    ("refusal_of_length", {"n": 80}, 0.10),
    ("structured", {}, 0.10),
)


@cache
def general_rubrics() -> tuple[tuple[Rubric, float], ...]:
    """Return the general checks as rubrics with their weights, heaviest first."""
    return tuple((rubric_for(Check.of(name, **args)), weight) for name, args, weight in GENERAL)


def view_of(text: str) -> TextView:
    """Return the view of a text. Views of recent texts are kept, except for very long ones."""
    return _kept_view(text, "") if len(text) <= MAX_KEPT_CHARS else TextView(text)


def view_of_prompt(prompt: Prompt | str) -> TextView:
    """Return the view of a prompt: its last user turn, with earlier turns of user and system as `before`."""
    turns = user_prompt(prompt) if isinstance(prompt, str) else prompt
    last = last_user_turn(turns)
    before = "\n\n".join(turn.content for turn in turns[:-1] if turn.role != "assistant")
    return _kept_view(last, before) if len(last) + len(before) <= MAX_KEPT_CHARS else TextView(last, before)


@lru_cache(maxsize=256)
def _kept_view(text: str, before: str) -> TextView:
    return TextView(text, before)


def check_of(rubric: Rubric) -> Check | None:
    """Return the check that a rubric carries or that its text states; None if a program cannot decide it."""
    return rubric.check if rubric.check is not None else recognise(rubric.text)


def compare_findings(rubric_id: str, a: Finding, b: Finding) -> RubricComparison:
    """Compare two findings: the one that passes is better, else the one with the larger degree, else neither."""
    gap = a.passed - b.passed or a.degree - b.degree
    better = None if abs(gap) <= SAME_DEGREE else Side.A if gap > 0 else Side.B
    first, second = (Verdict.PASS if finding.passed else Verdict.FAIL for finding in (a, b))
    return RubricComparison(rubric_id, first, second, better)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RulesJudge:
    """Judges with checks alone: free, exact, and abstaining on rubrics that are not checks."""

    name: str = "rules"
    label: str = "rules (offline checks, no model)"
    marks: Marks = frozenset({Integrity.OFFLINE_RULES})

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Weigh the general checks and, if the prompt does not seem harmful, its constraints with weight 1."""
        prompt, a, b = _views(shown)
        constraints = () if seems_harmful(prompt) else prompt_constraints(shown.prompt)
        weighted = [*((rubric, 1.0) for rubric in constraints), *general_rubrics()]
        evidence = tuple(
            Contribution(rubric=rubric, comparison=row, weight=weight)
            for rubric, weight in weighted
            if (row := _compare(rubric, prompt, a, b)) and row.better
        )
        margin = sum(contribution.value for contribution in evidence)
        margin = 0.0 if abs(margin) < SAME_DEGREE else margin
        return Answer(value=Preference(margin=margin, evidence=evidence))

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Return the constraints that the prompt states, as rubrics with checks."""
        return Answer(value=WrittenRubrics(rubrics=prompt_constraints(prompt), note=NOTE))

    async def compare(
        self,
        shown: Presentation,
        rubrics: Sequence[Rubric],
        *,
        overall: bool,
        note: str = "",  # noqa: ARG002  (part of the protocol; checks need no note)
    ) -> Answer[Comparisons]:
        """Decide the rubrics that are checks and apply; others are left out. Overall preference: sum of the deltas."""
        prompt, a, b = _views(shown)
        rows = tuple(row for rubric in rubrics if (row := _compare(rubric, prompt, a, b)))
        total = sum(row.delta or 0.0 for row in rows) if overall else 0.0
        preferred = None if abs(total) < SAME_DEGREE else Side.A if total > 0 else Side.B
        return Answer(value=Comparisons(rows=rows, preferred=preferred))

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Score one response 1 or 0 on each rubric that is a check and applies; others are absent."""
        prompt_view, response_view = view_of_prompt(prompt), view_of(response)
        scores = {}
        for rubric in rubrics:
            check = check_of(rubric)
            finding = bound(check)(prompt_view, response_view) if check else None
            if finding is not None:
                scores[rubric.id] = float(finding.passed)
        return Answer(value=scores)


def _views(shown: Presentation) -> tuple[TextView, TextView, TextView]:
    return view_of_prompt(shown.prompt), view_of(shown.response_a), view_of(shown.response_b)


def _compare(rubric: Rubric, prompt: TextView, a: TextView, b: TextView) -> RubricComparison | None:
    """Decide one rubric on two responses; None if it is not a check or does not apply to both."""
    check = check_of(rubric)
    first = bound(check)(prompt, a) if check else None
    second = bound(check)(prompt, b) if check and first is not None else None
    return None if first is None or second is None else compare_findings(rubric.id, first, second)
