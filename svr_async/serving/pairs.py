"""Judges pairs by a bank, or by the judge directly: margin, winner, and the contribution of each rubric."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar

from svr_async.adapters.pairs import read_unlabelled
from svr_async.adapters.tables import Pairs
from svr_async.core.pair import Order, Presentation, Prompt, Side, hashed_fraction, prompt_text
from svr_async.core.table import Line, Parts, Table, to_html
from svr_async.core.verdict import Contribution, Outcome
from svr_async.engine.concurrency import bounded_map, in_sync
from svr_async.errors import SvrError, UsageError
from svr_async.judges.protocol import Judge
from svr_async.judges.templates import clean
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.decision import Decision, average
from svr_async.scoring.methods.registry import Method
from svr_async.scoring.methods.simple import Direct
from svr_async.scoring.methods.svr import Rephraser, Svr, rephraser_of
from svr_async.scoring.selection import Chooser, doubts_of, open_chooser
from svr_async.serving.engine import FREE_WORKERS, Engine, EngineLike, opened
from svr_async.serving.texts import PromptLike, ResponseLike, as_prompt, as_response

Shown = Literal["hash", "ab", "ba", "both"]
ORDER_SALT = "svr-serving"
KEPT_CHOOSERS = 8
UNKNOWN = "–"
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """A verdict on two responses.

    `margin` > 0 favours A, < 0 B; None without a verdict: `outcome` and `detail` say why. `contributions` add up to
    the margin, positive towards A. `judge` is the label of the result. `doubts` say why a verdict is weak: a bank that
    never saw such a prompt, checks that do not separate the responses.
    """

    margin: float | None
    outcome: Outcome
    contributions: tuple[Contribution, ...] = ()
    detail: str = ""
    flags: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    judge: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def winner(self) -> Side | None:
        """`A` or `B`; None for a tie and without a verdict."""
        if not self.margin:
            return None
        return Side.A if self.margin > 0 else Side.B

    def __repr__(self) -> str:
        return f"<PairVerdict {self._decided}, {len(self.contributions)} rubrics, by {self.judge}>"

    def _repr_html_(self) -> str:
        return to_html(self._sheet())

    @property
    def _decided(self) -> str:
        if self.margin is None:
            return f"no verdict: {self.outcome.value}"
        return f"{f'{self.winner} is better' if self.winner else 'a tie'}, margin {number(self.margin)}"

    def _sheet(self) -> Parts:
        yield from heading(self._decided, self.judge, self.detail)
        yield from (Line(doubt, label="but") for doubt in self.doubts)
        if self.contributions:
            rows = map(_contributed, sorted(self.contributions, key=lambda part: -abs(part.value)))
            yield Table(("rubric", "counts", "adds", "towards", "A", "B"), tuple(rows), texts=3)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "margin": self.margin,
            "winner": None if self.winner is None else self.winner.value,
            "outcome": self.outcome.value,
            "contributions": [_plain(entry) for entry in self.contributions],
            "detail": self.detail,
            "flags": list(self.flags),
            "judge": self.judge,
            "doubts": list(self.doubts),
        }


def number(value: float | None, form: str = "+.2f") -> str:
    """Return a number with two digits and a true minus sign; a dash for None, no sign for zero."""
    if value is None:
        return UNKNOWN
    return f"{value:{form}}".replace("-", "−") if round(value, 2) else f"{0:.2f}"


def heading(decided: str, judge: str, detail: str) -> Parts:
    """Yield a decision, its judge, and what the judge said about it."""
    yield Line(decided, loud=True)
    yield Line(judge, label="judge")
    if detail:
        yield Line(detail, label="detail")


def _contributed(part: Contribution) -> Sequence[str]:
    made = part.comparison
    verdicts = (UNKNOWN, UNKNOWN) if made is None else (made.a.value, made.b.value)
    towards = ("A" if part.value > 0 else "B") if part.value else ""
    return (part.rephrased or part.rubric.text, number(part.importance, ".2f"), number(part.value), towards, *verdicts)


def _plain(entry: Contribution) -> dict[str, Any]:
    made = entry.comparison
    return {
        "rubric_id": entry.rubric.id,
        "rubric": entry.rubric.text,
        "rephrased": entry.rephrased,
        "alpha": entry.alpha,
        "weight": entry.weight,
        "filler": entry.filler,
        "a": None if made is None else made.a.value,
        "b": None if made is None else made.b.value,
        "delta": entry.delta,
        "contribution": entry.value,
        **({"chances": asdict(made.chances)} if made is not None and made.chances is not None else {}),
    }


async def ascore_pair(
    prompt: PromptLike,
    a: ResponseLike,
    b: ResponseLike,
    *,
    bank: RubricBank | None = None,
    engine: EngineLike,
    order: Shown = "hash",
    top_k: int | None = None,
    rephrase: bool = False,
) -> PairVerdict:
    """Judge two responses to a prompt in one call.

    Args:
        prompt: a text or a list of {role, content}.
        a: a text, a message of the assistant, or messages that end with one.
        b: the same.
        bank: the rubrics; without one the judge is asked directly, and `rules` decides by its general checks.
        engine: an `Engine`, a judge's name, or anything with the methods of `Judge`.
        order: `hash` (a hash of the texts sets which response is shown first, so swapping `a` and `b` only turns the
            sign), `ab`, `ba`, or `both` (two calls, averaged).
        top_k: rubrics of the bank that are used at most.
        rephrase: adapt the rubrics to the prompt first, one more call a prompt.

    Equal responses tie without a call. UsageError, and errors that stop an engine (key, quota, budget, endpoint down),
    are raised; a failed call is an outcome.
    """
    conversation = as_prompt(prompt)
    a, b = as_response(a, conversation), as_response(b, conversation)
    async with opened(engine) as asked:
        method = method_of(bank, asked, top_k=top_k, rephrase=rephrase)
        decision = await decide_pair(method, judge_of(asked), conversation, a, b, order=order)
        return PairVerdict(
            margin=decision.margin,
            outcome=decision.outcome,
            contributions=decision.contributions,
            detail=decision.detail,
            flags=decision.flags,
            requests=decision.requests,
            judge=asked.label,
            doubts=pair_doubts(decision, conversation, bank, method, asked),
        )


def pair_doubts(
    decision: Decision, prompt: Prompt, bank: RubricBank | None, method: Method, engine: Engine | Judge
) -> tuple[str, ...]:
    """Return why a decision on a pair is weak, in words."""
    return doubts_of(decision, prompt, bank, judge_of(engine).marks, direct=method.facts.direct)


async def decide_pair(
    method: Method, judge: Judge, prompt: Prompt, a: str, b: str, *, order: Shown = "hash"
) -> Decision:
    """Return the decision on two responses, A and B as given, in any shown order."""
    decisions = []
    for shown_order in _orders(order, prompt, a, b):
        if a == b:
            return Decision(margin=0.0, outcome=Outcome.TIE, flags=("identical",))
        first, second = (a, b) if shown_order is Order.AB else (b, a)
        shown = Presentation(pair_id="pair", prompt=prompt, response_a=first, response_b=second, order=shown_order)
        decisions.append((await method.decide(judge, shown, ())).in_data_order())
    return decisions[0] if len(decisions) == 1 else average(decisions)


def method_of(
    bank: RubricBank | None, engine: Engine | Judge, *, top_k: int | None = None, rephrase: bool = False
) -> Method:
    """Return the method for a bank or None; UsageError if the judge cannot rephrase."""
    if bank is None:
        if top_k is not None or rephrase:
            raise UsageError("top_k and rephrase need a bank", hint="bank=Bank.load(folder)")
        return Direct()
    if not isinstance(bank, RubricBank):
        raise UsageError(f"bank is a Bank, not {type(bank).__name__}", hint=f"bank=Bank.load({str(bank)[:40]!r})")
    rephraser: Rephraser | None = None
    if rephrase:
        author = engine.author if isinstance(engine, Engine) else engine
        rephraser = rephraser_of(author, judge_of(engine).name)
    return Svr(chooser_of(bank, top_k), rephraser=rephraser)


@lru_cache(maxsize=KEPT_CHOOSERS)
def chooser_of(bank: RubricBank, top_k: int | None = None) -> Chooser:
    """Return the chooser of a bank, kept for the next pair."""
    return open_chooser(bank, top_k=top_k)


def judge_of(engine: Engine | Judge) -> Judge:
    """Return the judge of an open engine, or the judge itself."""
    return engine.judge if isinstance(engine, Engine) else engine


def _orders(order: Shown, prompt: Prompt, a: str, b: str) -> tuple[Order, ...]:
    if order in {"ab", "ba", "both"}:
        return (Order.AB, Order.BA) if order == "both" else (Order(order),)
    if order != "hash":
        raise UsageError(f"order must be hash, ab, ba or both (got {order!r})", hint="hash is the default")
    text = clean(prompt_text(prompt))
    of_a, of_b = (hashed_fraction(ORDER_SALT, text, clean(response)) for response in (a, b))
    return (Order.AB if of_a <= of_b else Order.BA,)


async def ajudge_pairs(
    pairs: Pairs,
    *,
    bank: RubricBank | None = None,
    engine: EngineLike,
    order: Shown = "hash",
    top_k: int | None = None,
    rephrase: bool = False,
) -> list[PairVerdict]:
    """Judge many pairs as `score_pair` does, as many at once as the engine allows; verdicts are in the order given.

    `pairs` are (prompt, a, b), or in any form that `evaluate` takes; labels are not read, `chosen` is A. All pairs are
    read before the first call; DataError names the first invalid one.
    """
    rows = read_unlabelled(pairs)
    async with opened(engine) as asked:
        method_of(bank, asked, top_k=top_k, rephrase=rephrase)  # refuses invalid settings before any call
        ask = partial(ascore_pair, bank=bank, engine=asked, order=order, top_k=top_k, rephrase=rephrase)
        return await all_of(lambda row: ask(row.prompt, row.response_a, row.response_b), rows, asked)


score_pair = in_sync(ascore_pair)
judge_pairs = in_sync(ajudge_pairs)


async def all_of(work: Callable[[T], Awaitable[R]], items: Sequence[T], engine: Engine | Judge) -> list[R]:
    """Do the work on each item; after an error, running calls end first, since they are paid for."""

    async def attempt(item: T) -> R | SvrError:
        try:
            if isinstance(engine, Engine):
                engine.check_loop()  # if it was closed meanwhile, the work would open it again
            return await work(item)
        except SvrError as error:
            return error

    room = engine.concurrency if isinstance(engine, Engine) else FREE_WORKERS
    async with aclosing(bounded_map(attempt, items, workers=max(1, min(room, len(items))))) as done:
        found = {place: result async for place, result in done}
    for result in found.values():
        if isinstance(result, SvrError):
            raise result
    return [found[place] for place in range(len(items))]  # type: ignore[misc]  # no errors are left
