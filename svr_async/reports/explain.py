"""Explains the decision on one pair by the signed contributions of its rubrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from svr_async.core.pair import Order
from svr_async.core.table import Line, Parts, Table, to_html
from svr_async.evaluation.items import Item, Reason, RubricRow
from svr_async.evaluation.plan import Vote
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.evaluation.wording import UNKNOWN, count, percent, plural, signed

if TYPE_CHECKING:
    from svr_async.evaluation.details import Call

UNKNOWN_REQUEST = (
    "not shown: the judge's profile, the prompts or the data have changed since the run, which kept replies only"
)
IN_MESSAGES = {"messages", "input", "questions", "system"}  # parts of a body that are shown as messages
LEAST_SHOWN = 0.005  # smallest contribution that is shown
FEW_ROWS = 16  # with more rows, rubrics that count nothing are not listed
BAR_CELLS = 12
REASON_HEAD = 40  # characters of a rubric next to its reason
ROW_HEADS = ("rubric", "A", "B", "counts", "adds", "towards")
SWAPPED = "its A is B here"
ASK_A_MODEL = "a model as --judge decides every rubric"
LIKELY = (
    "Percentages: the judge’s probability of a pass. Counts: the rubric’s weight for this prompt. Adds: this weight × "
    "the expected difference. Such a judge gives no reasons."
)
COUNTS = "Counts: the rubric’s weight for this prompt. Adds: this weight × 1.25 if one passes and the other fails."
NEARER = "If both pass or both fail, the better response gets the weight × 0.25."


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One decision. `texts` is None if unknown; `caption` names the run with its marks.

    For a pair judged now, `of_run` is False, `caption` names the judge and the right answer is unknown; `doubts` are
    reasons to doubt the verdict.
    """

    item: Item
    texts: Texts | None
    caption: str
    of_run: bool = True
    doubts: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[RubricRow, ...]:
        """The rubrics by the size of their contribution, the largest first."""
        return by_size(self.item.rubrics)

    def __repr__(self) -> str:
        return f"<Explanation {self.item.id}: {decision_in_words(self)}, {len(self.rows)} rubrics>"

    def _repr_html_(self) -> str:
        texts = [Line(text, label=name) for name, text in explanation_texts(self)]
        return to_html([*explanation_parts(self), *texts])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        source = {"run": self.caption} if self.of_run else {"judged_by": self.caption, "doubts": list(self.doubts)}
        return {**source, "item": asdict(self.item), "texts": None if self.texts is None else asdict(self.texts)}


def explain(run: Run, item: str, *, data: Path | None = None) -> Explanation:
    """Explain one decision of a run: each rubric's verdicts and signed contribution.

    Texts are read from `data`, else from the run's own data if it has not changed. UsageError suggests the nearest id
    for an unknown one.
    """
    from svr_async.evaluation.details import item_of_run, known_texts
    from svr_async.evaluation.setup import texts_of_run

    decided = item_of_run(run, item)
    texts = known_texts(run, None)[0] if data is None else texts_of_run(run, [item], data)
    return Explanation(item=decided, texts=texts.get(item), caption=run.summary.caption)


def explanation_parts(found: Explanation) -> Parts:
    """Yield a decision, its rubrics with their verdicts and bars, the judge's reasons for them, and its votes."""
    yield Line(found.caption)
    decided = decision_in_words(found)
    yield Line(f"{found.item.id} {decided}" if found.of_run else decided)
    for place, doubt in enumerate(found.doubts):
        yield Line(f"{'and' if place else 'but'} {doubt}", loud=True)
    if rows := found.rows:
        shown = [row for row in rows if len(rows) <= FEW_ROWS or abs(row.contribution) >= LEAST_SHOWN]
        less = len(rows) - len(shown)
        notes = [f"and {less} that count less than 0.005: --json lists them"] if less else []
        yield Table(
            ROW_HEADS,
            [_row(found, row, abs(rows[0].contribution)) for row in shown],
            notes=[*notes, counts_note(found)],
        )
        if why_rows := [
            (row.text[:REASON_HEAD], why(one), one.text) for row in shown if (one := reason_of(found.item, row))
        ]:
            yield Table(("rubric", "", "reason of the judge"), why_rows, texts=2)
        yield Line(in_words(found), wrapped=True)
    elif found.item.margin is not None and not found.doubts and "identical" not in found.item.flags:
        yield Line("the judge gave its verdict directly, without rubrics")
    yield from (Line(_vote_in_words(vote)) for vote in found.item.votes)
    for label, value in (("detail", found.item.detail), ("flags", ", ".join(map(str, found.item.flags)))):
        if value:
            yield Line(value, label=label)


def _row(found: Explanation, row: RubricRow, largest: float) -> tuple[str, ...]:
    cells = max(1, round(BAR_CELLS * abs(row.contribution) / largest)) if row.contribution else 0
    bar = f"{'━' * cells} {favoured(row.contribution)}".rstrip()
    text = (row.rephrased or row.text) + "".join(f" ({mark})" for mark in marks_of(found, row))
    return (text, verdict_of(row, "A"), verdict_of(row, "B"), f"{row.importance:.2f}", signed(row.contribution), bar)


def explanation_texts(found: Explanation) -> list[tuple[str, str]]:
    """Return the judge's reasons for the verdict as a whole, the prompt and the responses, with their names."""
    texts = [(why(one), one.text) for one in verdict_reasons(found.item)]
    if found.texts is not None:
        sides = (("A", found.texts.response_a), ("B", found.texts.response_b))
        texts += [("prompt", found.texts.prompt), *((f"response {n}{tag_of(found, n)}", text) for n, text in sides)]
    return texts


def in_words(found: Explanation) -> str:
    """Return in words how many rubrics favour each response, and which counted most."""
    sums: dict[str, float] = {}  # by text, over all orders and judges
    for row in found.rows:
        sums[row.text] = sums.get(row.text, 0.0) + row.contribution
    rubrics = plural(len(sums), "rubric")
    if all(row.a is None for row in found.rows):
        return f"The judge could not decide any of {rubrics}" + ("." if found.of_run else f"; {ASK_A_MODEL}.")
    for_a, for_b = (sum(favoured(value) == side for value in sums.values()) for side in ("A", "B"))
    counted = f"Of {rubrics}, {for_a} for A, {for_b} for B, {len(sums) - for_a - for_b} for neither."
    winner = found.item.predicted
    its = [text for text, value in sums.items() if favoured(value) == winner]
    return (
        f'{counted} What counted most for {winner}: "{max(its, key=lambda text: abs(sums[text]))}"' if its else counted
    )


def counts_note(found: Explanation) -> str:
    """Return the meaning of the column `counts` for these rubrics."""
    if any(row.chances for row in found.rows):
        return LIKELY
    alike = any(row.a and row.a == row.b and row.contribution for row in found.rows)
    return f"{COUNTS} {NEARER}" if alike else COUNTS


def reason_of(item: Item, row: RubricRow) -> Reason | None:
    """Return the judge's reason for a rubric in the order of this row; None if missing."""
    same = (one for one in item.reasons if (one.rubric, one.shown, one.judge) == (row.id, row.shown, row.judge))
    return next(same, None)


def verdict_reasons(item: Item) -> tuple[Reason, ...]:
    """Return the reasons for the verdict as a whole, in each order and by each judge."""
    return tuple(one for one in item.reasons if not one.rubric)


def why(reason: Reason) -> str:
    """Return the label of a reason: its judge, and whether it names the responses swapped."""
    parts = ", ".join(filter(None, [reason.judge, SWAPPED if reason.shown == Order.BA.value else ""]))
    return f"why ({parts})" if parts else "why"


def verdict_of(row: RubricRow, side: str) -> str:
    """Return the verdict on A or B: pass, fail or the probability of a pass; a dash if missing."""
    if row.chances is not None:
        return percent(row.chances[0] if side == "A" else row.chances[1], 0)
    return (row.a if side == "A" else row.b) or UNKNOWN


def _vote_in_words(vote: Vote) -> str:
    order = "both orders" if vote.order == "both" else f"shown {vote.order}"
    after = ", asked as the second judge" if vote.part == "escalation" else ""
    if vote.margin is None:
        return f"{vote.judge}: no verdict ({vote.outcome.replace('_', ' ')}), {order}{after}"
    return f"{vote.judge}: {vote.predicted or 'tie'}, margin {signed(vote.margin)}, {order}{after}"


def by_size(rows: Sequence[RubricRow]) -> tuple[RubricRow, ...]:
    """Return rubrics by the size of their contribution, the largest first; equal ones in the order given."""
    return tuple(sorted(rows, key=lambda row: -abs(row.contribution)))


def favoured(value: float) -> str:
    """Return the side that a margin or contribution favours: `A`, `B`, or an empty string for 0."""
    return "A" if value > 0 else "B" if value < 0 else ""


def marks_of(found: Explanation, row: RubricRow) -> list[str]:
    """Return the labels of a row: filler, rephrased, its order and its judge, if there are several."""
    return [
        *([f"from: {row.text}"] if row.rephrased not in {None, row.text} else []),
        *(["filler"] if row.filler else []),
        *([row.shown] if found.item.order == "both" else []),
        *filter(None, [row.judge]),
    ]


def decision_in_words(found: Explanation) -> str:
    """Return the decision and its margin in words."""
    item = found.item
    if item.margin is None:
        return f"{item.outcome}: no verdict"
    if not found.of_run:
        decided = f"{item.predicted} is better" if item.predicted else "a tie"
        return f"{decided}, margin {signed(item.margin)} (above 0 for A, below 0 for B)"
    judged = {True: "right", False: "wrong", None: "no right answer"}[item.correct]
    chosen = f"chose {item.predicted}" if item.predicted else "a tie"
    return f"{chosen} ({judged}), margin {signed(item.margin)}"


def tag_of(found: Explanation, side: str) -> str:
    """Return in brackets whether a response is the right answer or the judge's choice."""
    sides = (("right answer", found.item.gold), ("judge's choice", found.item.predicted))
    tags = ", ".join(words for words, which in sides if which == side)
    return f" ({tags})" if tags else ""


def call_facts(call: Call, cache: Path | str) -> list[tuple[str, str]]:
    """Return the facts of a call as labelled lines."""
    found = [("call", call.key)]
    if (request := call.request) is not None:
        found.append(("asked", f"{request.model} at {request.endpoint} (wire {request.wire.name})"))
    if call.failure:
        found.append(("failed", ": ".join(filter(None, call.failure))))
    if (reply := call.reply) is None:
        return [*found, ("reply", f"not in {cache}")]
    model = (reply.model or "unnamed model") + " (SIMULATED endpoint)" * call.to_json()["simulated"]
    usage, cost = reply.usage, "" if call.usd is None else f", ${call.usd:.6f}"
    tokens = f"in {count(usage.prompt_tokens)} (cached {count(usage.cached_tokens)})"
    return [
        *found,
        ("answered", f"by {model}, finish {reply.finish_reason}, tries {reply.tries}"),
        ("tokens", f"{tokens}, out {count(usage.completion_tokens)}{cost}{', in a batch' * usage.batch}"),
        ("stored", f"in {cache}"),
    ]


def call_texts(call: Call) -> list[tuple[str, str]]:
    """Return the texts of the call with their names: request, settings, thoughts, reply."""
    found = [("request", UNKNOWN_REQUEST)]
    if call.request is not None:
        settings = {name: value for name, value in call.request.body().items() if name not in IN_MESSAGES}
        found = [*call.request.messages, ("settings", orjson.dumps(settings).decode())]
    if (reply := call.reply) is not None:
        found += [("thoughts", reply.reasoning)] if reply.reasoning else []
        found.append(("reply", reply.text))
    elif call.unread:
        found.append(("unreadable reply", call.unread))
    return found
