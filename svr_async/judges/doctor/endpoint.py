"""What `svr doctor --judge` does at an endpoint: counts its calls, asks them, and lines up the findings."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from svr_async.core.integrity import Integrity
from svr_async.core.pair import Presentation, user_prompt
from svr_async.engine.caller import EngineConfig
from svr_async.engine.fallbacks import apply_all
from svr_async.engine.http import HttpTransport
from svr_async.engine.reply import Usage
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret, key_from_environment
from svr_async.errors import AuthError, ModelError, SvrError, UsageError
from svr_async.judges.access import transport_to
from svr_async.judges.doctor import findings
from svr_async.judges.doctor.findings import Answer, Finding, failed
from svr_async.judges.doctor.questions import (
    CHOICES,
    EXPECTED_TOKENS,
    MOST_WAIT_S,
    Served,
    ask,
    bare,
    prompt_tokens_of,
    questions,
    served,
)
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.judges.profile import Profile
from svr_async.judges.spec import JudgeSpec

VERDICT_CALLS = 2  # the question, and once more where its answer cannot be read
VERDICT_TOKENS = 700  # tokens of that question's prompt
TIMEOUT_S = 60.0
FIRST = "answer"

Lean = Callable[[Request], Request]
"""Takes out of a request what the endpoint refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What will be asked: the questions that the cap on calls leaves, and whether a verdict is asked for."""

    profile: Profile
    max_calls: int
    asked: Mapping[str, Request]
    verdict: bool
    left_out: tuple[str, ...]

    @property
    def calls(self) -> int:
        """How many calls there will be at most."""
        others = len(self.profile.base_urls) - 1 if FIRST in self.asked else 0
        return min(self.max_calls, len(self.asked) + VERDICT_CALLS * self.verdict + others)

    def describe(self) -> str:
        """Return calls, tokens and price in words, before anything is sent."""
        tokens = prompt_tokens_of(self.asked) + VERDICT_CALLS * VERDICT_TOKENS * self.verdict
        usage = Usage(prompt_tokens=tokens, completion_tokens=self.calls * EXPECTED_TOKENS)
        price = self.profile.price
        cost = "price not entered" if price is None else f"about ${price.cost(usage):.4f}"
        return f"at most {self.calls} calls, about {tokens:,} tokens in and {usage.completion_tokens:,} out: {cost}"


@dataclass(slots=True)
class Spent:
    """What was really asked and reported."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)

    def add(self, name: str, answer: Answer) -> Answer:
        """Keep an answer and count its calls and tokens."""
        self.calls += answer.calls
        self.answers[name] = answer
        self.prompt_tokens += answer.usage.prompt_tokens or 0
        self.completion_tokens += answer.usage.completion_tokens or 0
        return answer

    def count(self, judge: OpenJudge) -> None:
        """Count what a judge has asked by itself."""
        if judge.engine is not None:
            facts = judge.engine.stats()
            self.calls += facts.sent
            self.prompt_tokens += facts.prompt_tokens
            self.completion_tokens += facts.completion_tokens


def choose_questions(profile: Profile, max_calls: int) -> Checkup:
    """Choose what to ask within the cap; the first question comes before the verdict, the verdict before the rest."""
    every = questions(profile)
    verdict = max_calls > VERDICT_CALLS
    room = max(0, max_calls - VERDICT_CALLS * verdict)
    asked = dict(list(every.items())[:room])
    if ("prefix" in asked) != ("prefix 2" in asked):
        del asked["prefix"]  # one of the two tells nothing
    left_out = [name for name in every if name not in asked and " " not in name] + ["verdict"] * (not verdict)
    return Checkup(profile=profile, max_calls=max_calls, asked=asked, verdict=verdict, left_out=tuple(left_out))


async def examine(checkup: Checkup, spec: JudgeSpec) -> list[Finding]:
    """Ask what the checkup holds and return the findings; what cannot be told any more is left out."""
    profile, key = checkup.profile, key_from_environment(checkup.profile.key_env)
    try:
        models = await served(profile, key)
    except SvrError as error:
        return [failed("key" if isinstance(error, AuthError) else "reach", error)]
    reach = findings.transport_finding(profile.base_url, models.tls, has_key=bool(key))
    transport = transport_to(profile, profile.base_url, timeout_s=TIMEOUT_S)
    try:
        found = await _ask_all(checkup, spec, models, key, transport)
        return [reach, *found] if models.reached else found
    finally:
        await transport.close()


async def _ask_all(
    checkup: Checkup, spec: JudgeSpec, models: Served, key: Secret, transport: HttpTransport
) -> list[Finding]:
    spent, names = Spent(), None if models.rows is None else list(models.rows)
    model = checkup.profile.model
    if FIRST not in checkup.asked:
        return [findings.model_finding(model, names, answers=True), _calls(checkup, spent)]
    first, culprit, lean = await _first(checkup, spent, transport)
    if first.error is not None:
        return [_no_answer(model, names, first.error), _calls(checkup, spent)]
    found = [
        findings.model_finding(model, names, answers=True),
        *([Finding(name="key", state="ok", text=f"the key in ${checkup.profile.key_env} is accepted")] if key else []),
        *culprit,
        *([await _verdict(spec, spent)] if checkup.verdict else []),
        *[await _other(checkup, url, key, spent) for url in checkup.profile.base_urls[1:]],
    ]
    for name, request in list(checkup.asked.items())[1:]:
        room = checkup.max_calls - spent.calls
        if room > 0:
            spent.add(name, await ask(transport, lean(request), room=room))
    row = (models.rows or {}).get(model, {})
    return [
        *found,
        *_told(checkup, spent.answers, first),
        findings.context_finding(row, checkup.profile.context_tokens),
        _calls(checkup, spent),
    ]


async def _other(checkup: Checkup, url: str, key: Secret, spent: Spent) -> Finding:
    """Look at a further endpoint of the judge: whether it lists the model and answers the first question."""
    host = urlsplit(url).netloc
    room = checkup.max_calls - spent.calls
    try:
        models = await served(replace(checkup.profile, base_url=url, base_urls=()), key)
    except SvrError as error:
        return replace(failed("other", error), text=f"{host}: {error.message}")
    if models.rows is not None and checkup.profile.model not in models.rows:
        cure = "serve the model there too, or leave the endpoint out of base_url"
        return Finding(name="other", state="fail", text=f"{host} does not list the model", cure=cure, exit_code=4)
    if room < 1:
        return Finding(name="other", state="none", text=f"{host} was not asked", cure="raise --max-calls")
    transport = transport_to(checkup.profile, url, timeout_s=TIMEOUT_S)
    try:
        answer = spent.add(url, await ask(transport, checkup.asked[FIRST], room=room))
    finally:
        await transport.close()
    if answer.error is not None:
        return replace(failed("other", answer.error), text=f"{host}: {answer.error.message}")
    return Finding(name="other", state="ok", text=f"{host} answers too, in {answer.seconds:.2f} s")


def _no_answer(model: str, names: list[str] | None, error: SvrError) -> Finding:
    """Return the finding where the very first question failed: the list of models says most of a model not served."""
    if isinstance(error, ModelError) and names and model not in names:
        return findings.model_finding(model, names, answers=False)
    return failed("key" if isinstance(error, AuthError) else "answer", error)


async def _first(checkup: Checkup, spent: Spent, transport: HttpTransport) -> tuple[Answer, list[Finding], Lean]:
    """Ask the first question; where the endpoint refuses it, ask without what it refuses to tell whose fault it is.

    Returned with the answer are what is to be said of it, and how the further questions are to be asked.
    """
    request = checkup.asked[FIRST]
    first = spent.add(FIRST, await ask(transport, request, room=checkup.max_calls))
    lean: Lean = partial(apply_all, first.cures) if first.cures else bare
    if not first.refused or lean(request) == request or checkup.max_calls <= spent.calls:
        return first, [], _as_it_is
    plain = spent.add(FIRST, await ask(transport, lean(request), room=1))
    if plain.text is None:
        return first, [], _as_it_is
    return plain, [findings.settings_finding(first, request)], lean


def _as_it_is(request: Request) -> Request:
    return request


def _told(checkup: Checkup, answers: Mapping[str, Answer], first: Answer) -> list[Finding]:
    """Return what the answers tell, without what was not asked."""
    profile = checkup.profile
    equal = [answers[name] for name in (FIRST, "answer 2", "answer 3") if name in answers]
    found = [
        *findings.steadiness_finding(list(answers.values())),
        findings.latency_finding(equal),
        findings.usage_finding(first),
        findings.limits_finding(first, profile.rpm, profile.tpm),
        findings.clock_finding(first, _date_of(first)),
    ]
    if len(equal) > 1:
        found.append(findings.same_finding(equal))
    makers = {
        "system": lambda answer: findings.system_finding(answer, first),
        "schema": lambda answer: findings.schema_finding(answer, CHOICES),
        "object": lambda answer: findings.object_finding(answer, profile.structured),
        "effort": lambda answer: findings.effort_finding(answer, profile.effort_style),
        "seed": findings.seed_finding,
        "prefix 2": findings.prefix_finding,
    }
    return found + [make(answers[name]) for name, make in makers.items() if name in answers]


def _date_of(answer: Answer) -> float | None:
    try:
        return parsedate_to_datetime((answer.headers or {}).get("date", "")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _calls(checkup: Checkup, spent: Spent) -> Finding:
    usage = Usage(prompt_tokens=spent.prompt_tokens, completion_tokens=spent.completion_tokens)
    price = checkup.profile.price
    cost = "" if price is None else f", ${price.cost(usage):.4f}"
    text = f"{spent.calls} made, {spent.prompt_tokens:,} tokens in and {spent.completion_tokens:,} out{cost}"
    if not checkup.left_out:
        return Finding(name="calls", state="ok", text=text)
    cure = f"a higher --max-calls finds out about {', '.join(checkup.left_out)}"
    return Finding(name="calls", state="none", text=text, cure=cure)


async def _verdict(spec: JudgeSpec, spent: Spent) -> Finding:
    try:
        return await _ask_for_verdict(spec, spent)
    except SvrError as error:
        return failed("verdict", error)


async def _ask_for_verdict(spec: JudgeSpec, spent: Spent) -> Finding:
    """Ask a direct question with a plain answer, as an evaluation does, past the cache."""
    shown = Presentation(
        pair_id="doctor", prompt=user_prompt("What is 2 + 2?"), response_a="2 + 2 is 4.", response_b="I like turtles."
    )
    with tempfile.TemporaryDirectory() as folder:
        opened = _open_judge(spec, Path(folder))
        begun = time.monotonic()
        try:
            answer = await opened.judge.prefer(shown)
        finally:
            spent.count(opened)
            await opened.close()
    seconds = time.monotonic() - begun
    if answer.value is None:
        raise UsageError(f"the endpoint answered, but not with a verdict: {answer.detail}", hint="is it a chat model?")
    simulated = " (SIMULATED endpoint)" if Integrity.SIMULATED in opened.judge.marks else ""
    right = answer.value.margin > 0
    text = f"answered in {seconds:.2f} s and chose {'A, as it should' if right else 'B, which is wrong'}{simulated}"
    cure = "" if right else "this judge may be too weak: compare it with another before trusting it"
    return Finding(name="verdict", state="ok" if right else "warn", text=text, cure=cure)


def _open_judge(spec: JudgeSpec, cache: Path | str) -> OpenJudge:
    """Open the judge with little patience and few calls."""
    config = EngineConfig(
        concurrency=1,
        attempts=1,
        repairs=VERDICT_CALLS - 1,
        first_contact_s=1.0,
        wait_s=0.2,
        give_up_after_s=MOST_WAIT_S,
    )
    limits = JudgeLimits(cache=cache, max_calls=VERDICT_CALLS, timeout_s=TIMEOUT_S)
    return open_judge(spec, limits, config=config)
