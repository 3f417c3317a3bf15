"""What is asked for RRD, in prompts that are ours, written to the paper's description of the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from svr_async.core.pair import Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.judges.model import Ask
from svr_async.judges.protocol import Preference
from svr_async.judges.questions import read_text, read_texts
from svr_async.judges.reader import read_direct, read_mark
from svr_async.scoring.rrd.options import RrdOptions

TEMPLATES = ("rrd_rubrics", "rrd_decompose", "rrd_judge", "rrd_filter")
PLANNED = "Planned rubric"


class Fate(StrEnum):
    """What the redundancy filter makes of a rubric beside the accepted ones."""

    NEW = "NEW"
    OVERLAP = "OVERLAP"
    CONFLICT = "CONFLICT"


@dataclass(frozen=True, slots=True)
class Questions:
    """Writes the questions of one prompt, of which `responses` were sampled."""

    options: RrdOptions
    prompt: Prompt
    responses: tuple[str, ...] = ()

    def _texts(self, **more: str) -> Mapping[str, str]:
        return {"PROMPT": prompt_text(self.prompt), **more}

    @property
    def _sampled(self) -> str:
        return "\n\n".join(f"Response {number}:\n{text}" for number, text in enumerate(self.responses, 1))

    def worse(self, strong: str) -> Ask[str]:
        """Ask for a plausible but worse response than the strong reference."""
        return Ask(
            template="probe",
            texts=self._texts(CHOSEN=strong),
            read=read_text,
            placeholder="Planned worse response.",
            tokens=len(strong) // 4,
        )

    def proposal(self) -> Ask[tuple[Rubric, ...]]:
        """Ask for the initial rubrics, conditioned on the samples."""
        return Ask(
            template="rrd_rubrics",
            texts=self._texts(RESPONSES=self._sampled),
            read=lambda text: read_rubrics(text, "proposed_rubrics", self.options.initial),
            placeholder=tuple(Rubric(text=f"{PLANNED} {number}.") for number in range(1, 6)),
            tokens=200,
            most_tokens=self.options.proposal_tokens,
        )

    def decomposition(self, rubric: Rubric) -> Ask[tuple[Rubric, ...]]:
        """Ask for finer rubrics in the place of one."""
        most = self.options.children
        return Ask(
            template="rrd_decompose",
            texts=self._texts(RESPONSES=self._sampled),
            rubrics=[rubric],
            read=lambda text: read_rubrics(text, "finer_rubrics", most),
            placeholder=tuple(Rubric(text=f"{rubric.text}{number}.") for number in range(1, most + 1)),
            tokens=40 * most,
            most_tokens=self.options.tokens,
        )

    def satisfied(self, response: str, rubric: Rubric, *, planned: bool) -> Ask[bool]:
        """Ask whether one response satisfies one rubric; `planned` is what a dry run takes for the answer."""
        return Ask(
            template="rrd_judge",
            texts=self._texts(RESPONSE=response),
            rubrics=[rubric],
            read=lambda text: read_mark(text, "yes|no", str.upper, "[[YES]] or [[NO]]", (response,)) == "YES",
            placeholder=planned,
            tokens=30,
            most_tokens=self.options.judge_tokens,
        )

    def redundancy(self, rubric: Rubric, accepted: Sequence[Rubric], *, planned: Fate) -> Ask[Fate]:
        """Ask whether a rubric repeats or contradicts an accepted one."""
        return Ask(
            template="rrd_filter",
            texts=self._texts(),
            rubrics=[rubric, *accepted],
            read=_read_fate,
            placeholder=planned,
            tokens=40,
            most_tokens=self.options.tokens,
        )

    def direct(self, shown: Presentation) -> Ask[Preference]:
        """Ask for a direct comparison, where rubrics decide nothing."""
        return Ask(
            template="direct",
            texts=self._texts(RESPONSE_A=shown.response_a, RESPONSE_B=shown.response_b),
            read=partial(read_direct, quoted=(shown.response_a, shown.response_b)),
            placeholder=Preference(margin=1.0),
            tokens=150,
            most_tokens=self.options.direct_tokens,
        )


def _read_fate(text: str) -> Fate:
    return Fate(read_mark(text, "new|overlap|conflict", str.upper, "[[NEW]], [[OVERLAP]] or [[CONFLICT]]"))


def read_rubrics(text: str, key: str, most: int) -> tuple[Rubric, ...]:
    """Read the list of rubric texts under a key, at most `most`; ReplyRejectedError if it is empty."""
    rubrics = [Rubric(text=one) for one in read_texts(text, key, most)[0]]
    return tuple({rubric.id: rubric for rubric in rubrics}.values())
