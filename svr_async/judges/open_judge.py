"""From the name of a judge to an open one: an endpoint, `rules`, `recorded:PATH`, or `J+rules`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from svr_async.core.integrity import Integrity
from svr_async.engine.concurrency import descriptors_for
from svr_async.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from svr_async.core.pair import Prompt
    from svr_async.engine.caller import EngineConfig
    from svr_async.engine.engine import CallEngine
    from svr_async.engine.http import Extras
    from svr_async.engine.money import Budget, Price
    from svr_async.engine.transport import Transport
    from svr_async.judges.limits import JudgeLimits
    from svr_async.judges.profiles import Profile
    from svr_async.judges.protocol import Author, Judge
    from svr_async.judges.templates import Templates

RULES = "rules"
RECORDED = "recorded:"
WITH_RULES = "+rules"
OPEN_FILES = 40  # files that a process has open besides its connections
WAYS_TO_NAME = (
    "--judge http://HOST:PORT/v1#MODEL is your own endpoint, --judge gpt-5.6-luna one that `svr judges` lists, "
    "--judge rules offline checks without a model"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """A judge by name: `rules`, `recorded:PATH`, or one behind an endpoint, with a `profile`.

    `text` is the name as written; `+rules` at its end lets checks decide what they can.
    """

    text: str
    profile: Profile | None = None
    recording: Path | None = None

    @classmethod
    def parse(cls, text: str, *, base_url: str = "") -> Self:
        """Read a judge's name; ConfigError for an unknown one, UsageError if empty. `base_url` replaces the profile's.

        Example:
            >>> JudgeSpec.parse("http://127.0.0.1:8000/v1#qwen3").name
            'qwen3'
        """
        if not text:
            raise UsageError("no judge is named", hint=WAYS_TO_NAME)
        if text == RULES:
            return cls(text=text)
        if text.startswith(RECORDED):
            path = text.removeprefix(RECORDED)
            if not path:
                raise ConfigError("--judge recorded: names no file", hint="write it as recorded:replies.jsonl")
            return cls(text=text, recording=Path(path))
        from svr_async.judges.profiles import find_profile

        spec = cls(text=text, profile=find_profile(text.removesuffix(WITH_RULES), base_url=base_url))
        if spec.scores and spec.hybrid:
            raise ConfigError(f"--judge {text}: a reward model reads no rubrics", hint=f"remove {WITH_RULES}")
        return spec

    def priced(self, price: Price | None) -> Self:
        """Return the judge with the price of --price, if given and if the judge is paid."""
        if price is None or self.profile is None:
            return self
        return replace(self, profile=replace(self.profile, price=price, price_date="", price_source="--price"))

    @property
    def decides(self) -> bool:
        """Whether the judge answers with probabilities."""
        return self.profile is not None and self.profile.spoken.questions > 0

    @property
    def scores(self) -> bool:
        """Whether the judge is a scalar reward model."""
        return self.profile is not None and self.profile.spoken.score

    @property
    def writes(self) -> bool:
        """Whether the judge is a model that answers with text, so that it can write rubrics and responses."""
        return self.profile is not None and not self.decides and not self.scores

    @property
    def prompts(self) -> Sequence[str]:
        """The names of the judge's templates."""
        from svr_async.judges.templates import DECIDING, NAMES

        if self.profile is None or self.scores:
            return ()
        return DECIDING if self.decides else NAMES

    @property
    def hybrid(self) -> bool:
        """Whether checks decide what they can before the endpoint is asked."""
        return self.profile is not None and self.text.endswith(WITH_RULES)

    @property
    def name(self) -> str:
        """The name in results."""
        if self.profile is not None:
            return self.profile.name + (WITH_RULES if self.hybrid else "")
        return RULES if self.recording is None else "recorded"

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variable with the key, for a judge behind an endpoint."""
        return () if self.profile is None else (self.profile.key_env,)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJudge:
    """A judge ready for use. `engine`, `profile` and `prompts` (template digests) are set for endpoints only.

    `author` is the same model as a writer of rubrics and probes: None for a judge that writes no text. If another
    judge writes, it is `behind` this one, and closed with it.
    """

    judge: Judge
    author: Author | None = None
    engine: CallEngine | None = None
    profile: Profile | None = None
    prompts: Mapping[str, str]
    behind: OpenJudge | None = None

    @property
    def judges(self) -> tuple[OpenJudge, ...]:
        """The judge and the one behind it."""
        return (self,) if self.behind is None else (self, *self.behind.judges)

    @property
    def engines(self) -> tuple[CallEngine, ...]:
        """The engines of its judges."""
        return tuple(one.engine for one in self.judges if one.engine is not None)

    @property
    def label(self) -> str:
        """The label of results; those of a simulated endpoint say so."""
        simulated = self.engine is not None and Integrity.SIMULATED in self.judge.marks
        return f"{self.judge.label} (SIMULATED endpoint)" if simulated else self.judge.label

    def facts(self) -> dict[str, Any]:
        """Return the judge as a manifest shows it, without keys."""
        facts: dict[str, Any] = {"name": self.judge.name, "label": self.label, "marks": sorted(self.judge.marks)}
        if self.profile is not None:
            facts |= {**self.profile.facts(), "params": dict(self.profile.params(structured=True))}
        if self.engine is not None and self.profile is not None:
            dropped = self.engine.refused(self.profile.endpoint, self.profile.model)
            if dropped:
                facts["refused"] = [str(one) for one in dropped]
                gone = {one.field for one in dropped}
                facts["params"] = {name: value for name, value in facts["params"].items() if name not in gone}
        if self.engine is not None:
            facts["models_seen"] = sorted(filter(None, self.engine.models))
            facts["fingerprints"] = sorted(filter(None, self.engine.fingerprints))
        return facts

    async def close(self) -> None:
        """Close the engines."""
        for engine in self.engines:
            await engine.close()


def open_judge(
    spec: JudgeSpec,
    limits: JudgeLimits,
    *,
    prompts: Mapping[str, Prompt] = MappingProxyType({}),
    budget: Budget | None = None,
    engines: int = 1,
    config: EngineConfig | None = None,
) -> OpenJudge:
    """Open a judge.

    A recording needs the `prompts` of its pairs, by id. The judges of a run share a `budget`; `engines` is how many of
    them this process has at the same time. `config` replaces the engine's settings from `limits`.
    """
    if spec.recording is not None:
        from svr_async.judges.recorded import load_recorded

        return OpenJudge(judge=load_recorded(spec.recording, prompts), prompts={})
    if spec.profile is None:
        from svr_async.judges.rules.author import RulesAuthor
        from svr_async.judges.rules.judge import RulesJudge

        return OpenJudge(judge=RulesJudge(), author=RulesAuthor(), prompts={})
    from svr_async.judges.templates import OWN, load_templates

    templates = load_templates(limits.prompts, (*spec.prompts, *(OWN if spec.writes else ())))
    settings = config or limits.engine_config(spec.profile)
    if limits.ray is None:  # with Ray the sockets are on the nodes
        soft = descriptors_for(engines * settings.concurrency + OPEN_FILES)
        most = settings.concurrency if soft is None else max(1, (soft - OPEN_FILES) // engines)
        settings = replace(settings, concurrency=min(settings.concurrency, most))
    engine = _engine_of(spec.profile, limits, settings, budget)
    judge, author = roles_of(spec, spec.profile, engine, templates)
    if spec.hybrid:
        from svr_async.judges.model import HybridJudge
        from svr_async.judges.rules.judge import RulesJudge

        judge = HybridJudge(judge, RulesJudge())
    used = {name: digest for name, digest in templates.digests.items() if name in spec.prompts}
    return OpenJudge(judge=judge, author=author, engine=engine, profile=spec.profile, prompts=used)


def roles_of(
    spec: JudgeSpec, profile: Profile, engine: CallEngine, templates: Templates
) -> tuple[Judge, Author | None]:
    """Return the endpoint as a judge, and as an author if it writes text."""
    if spec.scores:
        from svr_async.judges.decision import ScalarJudge

        return ScalarJudge(engine, profile), None
    if spec.decides:
        from svr_async.judges.decision import DecisionJudge, StatementWriter

        return DecisionJudge(engine, StatementWriter.of(profile, templates)), None
    from svr_async.judges.model import ModelJudge
    from svr_async.judges.questions import QuestionWriter

    model = ModelJudge(engine, QuestionWriter(profile, templates))
    return model, model


def _engine_of(profile: Profile, limits: JudgeLimits, config: EngineConfig, budget: Budget | None) -> CallEngine:
    from svr_async.engine.cache import Cache
    from svr_async.engine.engine import CallEngine
    from svr_async.engine.failures import FailureLog

    ray = None if config.offline or config.dry_run else limits.ray
    return CallEngine(
        {url: transport_to(profile, url, timeout_s=limits.timeout_s, ray=ray) for url in profile.base_urls},
        Cache.open(limits.cache),
        config=config,
        budget=budget or limits.new_budget(),
        price=profile.price,
        failures=FailureLog(limits.failures, forget=limits.retry_errors),
    )


def transport_to(profile: Profile, base_url: str, *, timeout_s: float, ray: str | None = None) -> Transport:
    """Return the transport to one of a profile's addresses, or one that sends from the nodes of a Ray cluster.

    The key goes to this address only. ConfigError if a variable that the profile names is not set.
    """
    from svr_async.engine.secrets import key_from_environment

    key, extras = key_from_environment(profile.key_env), extras_of(profile)
    if ray is not None:
        from svr_async.engine.ray import RayTransport

        return RayTransport(ray, base_url, key, timeout_s=timeout_s, wire=profile.spoken, extras=extras)
    from svr_async.engine.http import HttpTransport
    from svr_async.judges.profiles import known_endpoints

    keyed = {one["base_url"] for one in known_endpoints().values() if one["key_env"]}
    keyless = base_url in keyed and not key and not profile.headers
    return HttpTransport(base_url, key, timeout_s=timeout_s, wire=profile.spoken, extras=extras, keyless=keyless)


def extras_of(profile: Profile) -> Extras:
    """Return path, headers and query of a profile's requests, with the values of the variables that it names."""
    from svr_async.engine.http import Extras
    from svr_async.engine.secrets import Secret
    from svr_async.judges.profiles import variable_in

    tables, secrets = {"headers": dict(profile.headers), "query": dict(profile.query)}, dict[str, None]()
    for setting, table in tables.items():
        for name, value in table.items():
            variable = variable_in(value)
            if variable is not None:
                table[name] = os.environ.get(variable, "").strip()
                secrets[table[name]] = None
            if not table[name] or not table[name].isprintable():
                problem = f"${variable}, which is not set or not printable" if variable else "empty or not printable"
                hint = f"set ${variable}, or remove {name} from {setting}" if variable else ""
                raise ConfigError(f"judge {profile.name}: {setting} {name} is {problem}", hint=hint)
    masked = tuple(map(Secret, secrets))
    return Extras(path=profile.path, key_header=profile.key_header, secrets=masked, **tables)
