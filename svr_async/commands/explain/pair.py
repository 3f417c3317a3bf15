"""The work behind `svr explain --prompt … --a … --b …`: one pair judged now. Loaded only when a pair is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from svr_async.commands.given_text import text_of
from svr_async.core.pair import PreferencePair
from svr_async.engine.concurrency import run_whole
from svr_async.evaluation.explain import Explanation, explain_decision
from svr_async.evaluation.items import build_item
from svr_async.evaluation.run_folder import Texts
from svr_async.judges.keys import naming_keys
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.spec import RULES, JudgeSpec
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine
from svr_async.serving.pairs import decide_pair, method_of, pair_doubts
from svr_async.serving.texts import as_prompt

GENERAL = "no bank is named, so the general checks of the rules judge decide"
DIRECT = "no bank is named, so the judge is asked directly"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFlags:
    """What is judged now: texts (or `@FILE`), the bank (None: none) and the judge, by the names of the flags."""

    bank: str | None
    prompt: str
    a: str
    b: str
    judge: str
    base_url: str
    limits: JudgeLimits
    top_k: int | None
    rephrase: bool
    order: Literal["hash", "ab", "ba"]


def explain_pair(flags: PairFlags) -> Explanation:
    """Judge the pair and take the decision apart; SvrError for what makes that impossible."""
    texts = Texts(
        prompt=text_of("--prompt", flags.prompt),
        response_a=text_of("--a", flags.a),
        response_b=text_of("--b", flags.b),
    )
    bank = None if flags.bank is None else RubricBank.load(flags.bank)
    spec = JudgeSpec.parse(flags.judge, base_url=flags.base_url)
    with naming_keys(spec.key_variables):
        return run_whole(_explain(flags, texts, bank))


async def _explain(flags: PairFlags, texts: Texts, bank: RubricBank | None) -> Explanation:
    prompt = as_prompt(texts.prompt)
    pair = PreferencePair(
        id="pair", prompt=prompt, chosen=texts.response_a, rejected=texts.response_b, has_preference=False
    )
    async with Engine.limited(flags.judge, flags.limits, base_url=flags.base_url) as engine:
        method = method_of(bank, engine, top_k=flags.top_k, rephrase=flags.rephrase)
        decision = await decide_pair(
            method, engine.judge, prompt, texts.response_a, texts.response_b, order=flags.order
        )
        told = pair_doubts(decision, prompt, bank, method, engine)
        title = f"{bank_in_words(flags) if bank is None else bank.name or flags.bank} · {engine.label}"
    item = build_item(pair, decision, order=decision.shown.value, shown=(decision,), rows=(decision,))
    return explain_decision(item, texts, title, of_run=False, doubts=told)


def bank_in_words(flags: PairFlags) -> str:
    """Say what decides where no bank is named."""
    return GENERAL if flags.judge == RULES else DIRECT
