"""`rubric-arm`, `rubric-arrow` and `rm-r1`: generative reward models, by their public descriptions.

Rubric-ARM (Xu et al. 2026) and RUBRIC-ARROW (2026) each have a model that writes a rubric from the prompt and one that
judges by it, pairs in the first and single responses in the second; RM-R1 (Chen et al. 2025) is one model that writes
criteria or a solution and decides in the same reply. Their prompts are not published: ours are
`judges/prompts/arm_*.txt`, `arrow_*.txt` and `rm_r1.txt`; --prompts DIR replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TypeVar

from svr_async.core.pair import HumanRubrics, Presentation, prompt_text
from svr_async.engine.request import ReplyRejectedError
from svr_async.errors import UsageError
from svr_async.judges.model import Ask, asked
from svr_async.judges.protocol import Answer, Judge, Preference
from svr_async.judges.questions import read_text
from svr_async.judges.reader import read_direct, read_mark
from svr_async.scoring.decision import Decision, decided, undecided
from svr_async.scoring.methods.registry import Facts, OwnWords, Parts, Recipe, named_judge

ARM, ARROW, RM_R1 = "rubric-arm", "rubric-arrow", "rm-r1"
# Each asks with the first for the rubric, and with the last for the verdict.
TEMPLATES = {ARM: ("arm_rubrics", "arm_judge"), ARROW: ("arrow_rubrics", "arrow_judge"), RM_R1: ("rm_r1",)}
MOST = 10.0  # of a score
T = TypeVar("T")
TOKENS_OF_RUBRIC, TOKENS_OF_VERDICT = 250, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerOptions:
    """`proposer` is the judge that writes the rubric, by default the run's."""

    proposer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generative:
    """A generative reward model: a proposer writes a rubric, a judge decides by it.

    `rubric-arm` and `rm-r1` name the better response, margin 1 or −1; `rubric-arrow` scores each from 0 to 10, and the
    margin is the difference. The rubric depends on the prompt alone, a score on prompt and response.
    """

    name: str
    options: ProposerOptions = field(default_factory=ProposerOptions)
    others: Mapping[str, Judge] = field(default_factory=dict)

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""
        own = OwnWords(
            templates=TEMPLATES[self.name],
            bind=lambda others: replace(self, others=others),
            others=(self.options.proposer,) if self.options.proposer else (),
        )
        return Facts(identity=asdict(self.options), staged=self.name != RM_R1, own=own)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for a rubric, then for the verdict by it; `rm-r1` gives both in one reply."""
        if self.name == RM_R1:
            return await self._compared(judge, shown, Answer(value=""))
        ask = Ask(
            template=TEMPLATES[self.name][0],
            texts={"PROMPT": prompt_text(shown.prompt)},
            read=read_text,
            placeholder="1. Planned criterion. [Hard Rule]",
            tokens=TOKENS_OF_RUBRIC,
        )
        rubric = await asked(named_judge(self.options.proposer, judge, self.others), ask)
        if rubric.value is None:
            return undecided(rubric, shown)
        return await (self._scored if self.name == ARROW else self._compared)(judge, shown, rubric)

    async def _compared(self, judge: Judge, shown: Presentation, rubric: Answer[str]) -> Decision:
        responses = {"RESPONSE_A": shown.response_a, "RESPONSE_B": shown.response_b}
        read = partial(read_direct, quoted=tuple(responses.values()))
        answer = await asked(judge, self._verdict(shown, rubric, read, Preference(margin=1.0), **responses))
        if answer.value is None:
            return undecided(answer, shown, rubric.requests)
        found = decided(answer.value.margin, shown, requests=rubric.requests + answer.requests)
        return replace(found, reason=answer.value.reason)

    async def _scored(self, judge: Judge, shown: Presentation, rubric: Answer[str]) -> Decision:
        asks = [
            self._verdict(shown, rubric, partial(read_grade, response=one), min(MOST, len(one) / 1000), RESPONSE=one)
            for one in (shown.response_a, shown.response_b)
        ]
        a, b = [await asked(judge, ask) for ask in asks]
        requests = tuple(dict.fromkeys(rubric.requests + a.requests + b.requests))  # equal responses have one question
        if a.value is None or b.value is None:
            return undecided(replace(a if a.value is None else b, requests=()), shown, requests)
        return replace(decided(a.value - b.value, shown, requests=requests), scores=(a.value, b.value))

    def _verdict(
        self, shown: Presentation, rubric: Answer[str], read: Callable[[str], T], placeholder: T, **responses: str
    ) -> Ask[T]:
        texts = {"PROMPT": prompt_text(shown.prompt), **responses, **({"RUBRIC": rubric.value} if rubric.value else {})}
        template = TEMPLATES[self.name][-1]
        return Ask(template=template, texts=texts, read=read, placeholder=placeholder, tokens=TOKENS_OF_VERDICT)


def read_grade(text: str, response: str = "") -> float:
    """Return a reply's score in double brackets, 0 to 10; ReplyRejectedError without one in that range."""
    wanted = f"a score from [[0]] to [[{MOST:.0f}]]"
    score = read_mark(text, r"\d+(?:\.\d+)?", float, wanted, (response,))
    if score > MOST:
        raise ReplyRejectedError(f"Your answer did not end with {wanted}.")
    return score


def _make(name: str, parts: Parts) -> Generative:
    options = parts.options or ProposerOptions()
    if options.proposer and name == RM_R1:
        raise UsageError(f"--method {RM_R1} has no proposer: one reply has all", hint="leave --option proposer out")
    return Generative(name=name, options=options)


RECIPES = dict.fromkeys(TEMPLATES, Recipe(make=_make, options=ProposerOptions))
