"""The one place that opens a judge: an endpoint, `rules`, `recorded:PATH`, or `J+rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from svr_async.core.integrity import Integrity
from svr_async.core.pair import Prompt
from svr_async.core.provenance import descriptors_for
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.protocol import Author, Judge
from svr_async.judges.spec import JudgeSpec

if TYPE_CHECKING:
    from svr_async.engine.caller import EngineConfig
    from svr_async.engine.engine import CallEngine
    from svr_async.engine.money import Budget
    from svr_async.engine.transport import Transport
    from svr_async.judges.profile import Profile
    from svr_async.judges.templates import Templates

OTHER_FILES = 40  # files that a process has open beside its connections


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJudge:
    """A judge ready to be asked. `engine`, `profile` and `prompts` (template digests) are set for endpoints only.

    `author` is the same thing as a writer of rubrics and probes: a recording has none, a decision judge one that
    refuses. Where somebody else writes, that is `behind` it, and closed with it.
    """

    judge: Judge
    author: Author | None = None
    engine: CallEngine | None = None
    profile: Profile | None = None
    prompts: Mapping[str, str]
    behind: OpenJudge | None = None

    @property
    def engines(self) -> tuple[CallEngine, ...]:
        """The engines of the judge and of who writes for it."""
        own = () if self.engine is None else (self.engine,)
        return own if self.behind is None else own + self.behind.engines

    @property
    def label(self) -> str:
        """How results are labelled; those of a simulated endpoint say so."""
        simulated = self.engine is not None and Integrity.SIMULATED in self.judge.marks
        return f"{self.judge.label} (SIMULATED endpoint)" if simulated else self.judge.label

    def facts(self) -> dict[str, Any]:
        """Return what the manifest says about the judge: never a key."""
        facts: dict[str, Any] = {"name": self.judge.name, "label": self.label, "marks": sorted(self.judge.marks)}
        if self.profile is not None:
            facts |= {"model": self.profile.model, "base_url": self.profile.base_url, "source": self.profile.source}
            if len(self.profile.base_urls) > 1:
                facts["base_urls"] = list(self.profile.base_urls)
            facts["max_tokens"] = self.profile.max_tokens
            facts["params"] = dict(self.profile.params(structured=True))
            facts |= self.profile.told
        if self.engine is not None and self.profile is not None:
            cures = self.engine.refused(self.profile.endpoint, self.profile.model)
            if cures:
                facts["refused"] = [str(cure) for cure in cures]
                gone = {cure.field for cure in cures}
                facts["params"] = {name: value for name, value in facts["params"].items() if name not in gone}
        if self.engine is not None:
            facts["models_seen"] = sorted(filter(None, self.engine.models))
            facts["fingerprints"] = sorted(filter(None, self.engine.fingerprints))
        return facts

    async def close(self) -> None:
        """Close the engines that there are."""
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
    """Open the judge of a name; UsageError for a cap in dollars on one without a price.

    A recording needs the `prompts` of its pairs by their ids. The judges of a run share a `budget`; `engines` is how
    many of them this process has under way at once. `config` stands in the place of what the limits say.
    """
    if spec.profile is None:
        return _open_offline(spec, prompts)
    found = config or limits.engine_config(spec.profile)
    if limits.ray is None:  # with Ray the sockets are on the nodes
        found = within_descriptors(found, engines=engines)
    return _open_endpoint(spec, spec.profile, limits, found, budget)


def _open_offline(spec: JudgeSpec, prompts: Mapping[str, Prompt]) -> OpenJudge:
    """Open `rules` or a recording; neither loads aiohttp."""
    if spec.recording is None:
        from svr_async.judges.rules.author import RulesAuthor
        from svr_async.judges.rules.judge import RulesJudge

        return OpenJudge(judge=RulesJudge(), author=RulesAuthor(), prompts={})
    from svr_async.judges.recorded import load_recorded

    return OpenJudge(judge=load_recorded(spec.recording, prompts), prompts={})


def _open_endpoint(
    spec: JudgeSpec, profile: Profile, limits: JudgeLimits, config: EngineConfig, budget: Budget | None
) -> OpenJudge:
    """Open a judge behind an endpoint, with the rules judge in front of it for `J+rules`."""
    from svr_async.judges.templates import OWN, load_templates

    templates = load_templates(limits.prompts, (*spec.prompts, *(OWN if spec.writes else ())))
    engine = _engine_of(profile, limits, config, budget)
    opened = _scoring if spec.scores else _deciding if spec.decides else _writing
    judge, author = opened(engine, profile, templates)
    if spec.hybrid:
        from svr_async.judges.hybrid import HybridJudge
        from svr_async.judges.rules.judge import RulesJudge

        judge = HybridJudge(judge, RulesJudge())
    used = {name: digest for name, digest in templates.digests.items() if name in spec.prompts}
    return OpenJudge(judge=judge, author=author, engine=engine, profile=profile, prompts=used)


def _writing(engine: CallEngine, profile: Profile, templates: Templates) -> tuple[Judge, Author]:
    """Return a model that answers with texts, as a judge and as an author."""
    from svr_async.judges.author import ModelAuthor
    from svr_async.judges.model import ModelJudge
    from svr_async.judges.questions import QuestionWriter

    writer = QuestionWriter(profile, templates)
    return ModelJudge(engine, writer, profile.name), ModelAuthor(engine, writer)


def _deciding(engine: CallEngine, profile: Profile, templates: Templates) -> tuple[Judge, Author]:
    """Return a model that answers with probabilities, and an author that refuses to be one."""
    from svr_async.judges.decision import DecisionJudge, NoAuthor
    from svr_async.judges.statements import StatementWriter

    return DecisionJudge(engine, StatementWriter.of(profile, templates), profile.name), NoAuthor(profile.name)


def _scoring(engine: CallEngine, profile: Profile, templates: Templates) -> tuple[Judge, Author]:  # noqa: ARG001
    """Return a reward model, which is shown no template, and an author that refuses to be one."""
    from svr_async.judges.decision import NoAuthor
    from svr_async.judges.scalar import ScalarJudge

    return ScalarJudge(engine, profile), NoAuthor(profile.name)


def _engine_of(profile: Profile, limits: JudgeLimits, config: EngineConfig, budget: Budget | None) -> CallEngine:
    from svr_async.engine.cache import Cache
    from svr_async.engine.engine import CallEngine
    from svr_async.engine.failures import FailureLog
    from svr_async.engine.money import Budget
    from svr_async.engine.transport import Endpoints
    from svr_async.judges.access import ray_transport_to, transport_to

    failures = FailureLog(limits.failures, forget=limits.retry_errors)
    make: Callable[..., Transport] = transport_to
    if limits.ray is not None and not (config.offline or config.dry_run):
        make = partial(ray_transport_to, address=limits.ray)
    members = {url: make(profile, url, timeout_s=limits.timeout_s) for url in profile.base_urls}
    return CallEngine(
        Endpoints(members),
        Cache.open(limits.cache),
        config=config,
        budget=budget or Budget(max_calls=limits.max_calls, max_usd=limits.budget),
        price=profile.price,
        failures=failures,
    )


def within_descriptors(config: EngineConfig, *, engines: int = 1) -> EngineConfig:
    """Bound the calls under way of each engine by the files that this process may open, after asking for more."""
    soft = descriptors_for(engines * config.concurrency + OTHER_FILES)
    most = config.concurrency if soft is None else max(1, (soft - OTHER_FILES) // engines)
    return config if config.concurrency <= most else replace(config, concurrency=most)
