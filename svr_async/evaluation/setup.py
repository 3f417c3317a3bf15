"""Prepares an evaluation: resolves method and judges, and loads the pairs. Nothing is opened or sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters import Adapter, Dataset, get_adapter
from svr_async.adapters.hub import CACHE
from svr_async.adapters.pair_files import select_pairs
from svr_async.core.pair import PreferencePair
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.evaluation.settings import EvalSettings, from_plain
from svr_async.evaluation.summary import SAMPLE_SUFFIX
from svr_async.judges.limits import WHOLE, places_of, refuse_one_price
from svr_async.judges.open_judge import RULES, JudgeSpec
from svr_async.scoring.decision import JuryRule
from svr_async.scoring.methods.registry import (
    Method,
    Needed,
    Part,
    Parts,
    Recipe,
    find_recipe,
    names_that_take,
    read_options,
)
from svr_async.scoring.methods.simple import load_rubric_file
from svr_async.scoring.provenance import command_line
from svr_async.version import __version__

LACKS: dict[Needed, tuple[str, str]] = {
    "bank": ("--bank DIR", "svr train makes one; without a bank the rules judge uses its general checks"),
    "rubrics": ("--rubrics FILE", "one rubric a line"),
}
REQUIRED = ("benchmark", "judge", "order", "concurrency", "salt", "tie_credit", "cache")  # settings in a manifest


def choose_method(settings: EvalSettings) -> Method:
    """Return the method of the settings; UsageError for an unknown one, and for parts that it lacks or cannot use."""
    name = settings.method or ("svr" if settings.bank else "fixed" if settings.rubrics else "direct")
    recipe = find_recipe(name)
    _check_parts(settings, name, recipe)
    bank = None
    if settings.bank is not None:
        from svr_async.scoring.bank import RubricBank

        bank = RubricBank.load(settings.bank, offline=settings.limits.offline)
    rubrics, by_points = load_rubric_file(settings.rubrics) if settings.rubrics else ((), False)
    options = read_options(recipe.options, name, settings.option)
    parts = Parts(bank=bank, top_k=settings.top_k, rubrics=rubrics, rephrase=settings.rephrase, options=options)
    return recipe.make(name, replace(parts, by_points=by_points))


def _check_parts(settings: EvalSettings, name: str, recipe: Recipe) -> None:
    if settings.rephrase and (settings.bank is None or "rephrase" not in recipe.takes):
        hint = f"give --bank, with --method {' or '.join(names_that_take('rephrase'))}"
        raise UsageError("--rephrase rewrites the rubrics of a bank", hint=hint)
    if settings.bank is not None and (settings.rubrics is not None or "bank" not in recipe.takes):
        other = "--rubrics" if settings.rubrics is not None else f"--method {name}"
        raise UsageError(f"--bank and {other} exclude each other", hint=f"{_names('bank')} use a bank")
    given: dict[Needed, object] = {"bank": settings.bank, "rubrics": settings.rubrics}
    if recipe.needs is not None and given[recipe.needs] is None:
        flag, hint = LACKS[recipe.needs]
        raise UsageError(f"--method {name} needs {flag}", hint=hint)
    if settings.rubrics is not None and "rubrics" not in recipe.takes:
        hint = f"leave one out; {_names('rubrics')} use them"
        raise UsageError(f"--method {name} does not use --rubrics {settings.rubrics}", hint=hint)


def _names(part: Part) -> str:
    *first, last = names_that_take(part)
    return f"{', '.join(first)} and {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedJudge:
    """A judge before it is opened: its name in the run, and the digests of its prompts or recording."""

    spec: JudgeSpec
    name: str
    prompts: Mapping[str, str] = field(default_factory=dict)
    recording: str = ""

    def identity(self) -> dict[str, Any]:
        """Return everything about the judge that can change an item."""
        facts: dict[str, Any] = {"judge": self.spec.text, "prompts": dict(self.prompts), "recording": self.recording}
        if (profile := self.spec.profile) is not None:
            facts["endpoint"] = [profile.identity, profile.model, profile.max_tokens]
            facts["params"] = [profile.params(structured=flag) for flag in (False, True)]
        return facts


def _resolve_judge(settings: EvalSettings, text: str, method: Method) -> ResolvedJudge:
    """Resolve a judge without opening it; a content-blind method has no judge."""
    if not method.facts.asks_judge:
        return ResolvedJudge(spec=JudgeSpec.parse(RULES), name="none")
    spec = JudgeSpec.parse(text, base_url=settings.base_url).priced(settings.limits.price)
    if spec.profile is None:
        file = spec.recording
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file is not None and file.is_file() else ""
        return ResolvedJudge(spec=spec, name=spec.name, recording=digest)
    from svr_async.judges.templates import load_templates

    own = method.facts.own
    names = (*spec.prompts, *(own.templates if own is not None and spec.writes else ()))
    return ResolvedJudge(spec=spec, name=spec.name, prompts=load_templates(settings.limits.prompts, names).digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedJudges:
    """The judges of a run before they are opened: the first one or a jury, and the judge of escalated pairs.

    `method_judges` are those that only the method itself asks; `places` maps each of its names to a judge's index.
    """

    jurors: tuple[ResolvedJudge, ...]
    senior: ResolvedJudge | None
    rule: JuryRule
    below: float
    audit_below: float | None
    method_judges: tuple[ResolvedJudge, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)

    @property
    def deciding(self) -> tuple[ResolvedJudge, ...]:
        """The judges that decide: the jurors, then the judge of escalated pairs."""
        return self.jurors if self.senior is None else (*self.jurors, self.senior)

    @property
    def judges(self) -> tuple[ResolvedJudge, ...]:
        """All judges: those that decide, then those of the method."""
        return (*self.deciding, *self.method_judges)

    @property
    def name(self) -> str:
        """A name for the run: the names of the judges that decide."""
        first = ",".join(judge.name for judge in self.jurors)
        return first if self.senior is None else f"{first}→{self.senior.name}"

    @property
    def prompts(self) -> Mapping[str, str]:
        """The digests of all prompt templates."""
        return {name: digest for judge in self.judges for name, digest in judge.prompts.items()}

    def identity(self) -> dict[str, Any]:
        """Return everything about the judges that can change an item."""
        extra: dict[str, Any] = {}
        if self.audit_below is not None:
            extra["audit_below"] = self.audit_below
        if len(self.jurors) > 1:
            extra["jury"] = [self.rule, *(judge.identity() for judge in self.jurors)]
        if self.senior is not None:
            extra["escalation"] = [self.below, self.senior.identity()]
        if self.method_judges:
            extra["method_judges"] = [judge.identity() for judge in self.method_judges]
        return self.jurors[0].identity() | ({"plan": extra} if extra else {})

    def description(self) -> str:
        """Return how the judges work together; empty for one judge."""
        parts = []
        if len(self.jurors) > 1:
            parts.append(f"a jury, {'mean of margins' if self.rule is JuryRule.MEAN else 'by majority'}")
        if self.senior is not None:
            unsure = "for ties and pairs without a verdict"
            where = f"where |margin| is below {self.below:g}, {unsure}" if self.below else unsure
            parts.append(f"then {self.senior.name} {where}")
        if self.method_judges:
            parts.append(f"the method also asks {', '.join(judge.name for judge in self.method_judges)}")
        return "; ".join(parts)


def resolve_judges(settings: EvalSettings, method: Method) -> ResolvedJudges:
    """Resolve the judges; UsageError for a judge that is named twice or that the method cannot use."""
    specs = [settings.judge]
    if settings.jury is not None:
        specs = [spec.strip() for spec in settings.jury.split(",") if spec.strip()]
        if len(specs) < 2:
            raise UsageError(f"--jury needs at least two judges (got {len(specs)})", hint="write them as J1,J2,J3")
    if not method.facts.asks_judge and (len(specs) > 1 or settings.escalate_to or settings.audit_below):
        hint = "leave --jury, --escalate-to and --audit-below out"
        raise UsageError(f"--method {method.name} asks no judge", hint=hint)
    jurors = tuple(_resolve_judge(settings, spec, method) for spec in specs)
    senior = None if settings.escalate_to is None else _resolve_judge(settings, settings.escalate_to, method)
    resolved = ResolvedJudges(
        jurors=jurors,
        senior=senior,
        rule=JuryRule(settings.jury_rule),
        below=settings.escalate_below or 0.0,
        audit_below=settings.audit_below,
    )
    resolved = _with_method_judges(resolved, settings, method)
    names = [judge.name for judge in resolved.judges]
    refuse_one_price(settings.limits.price, [judge.name for judge in resolved.judges if judge.spec.profile is not None])
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise UsageError(f"the judge {again} is named twice", hint="the same judge gives the same replies")
    return resolved


def _with_method_judges(resolved: ResolvedJudges, settings: EvalSettings, method: Method) -> ResolvedJudges:
    """Add the judges that only the method asks; UsageError if it needs texts and a judge writes no text."""
    own = method.facts.own
    if own is None:
        return resolved
    places = {judge.spec.text: place for place, judge in enumerate(resolved.deciding)}
    added: list[ResolvedJudge] = []
    for text in own.others:
        if text not in places:
            places[text] = len(resolved.deciding) + len(added)
            added.append(_resolve_judge(replace(settings, base_url=""), text, method))
    whole = replace(resolved, method_judges=tuple(added), places={text: places[text] for text in own.others})
    silent = next((judge for judge in whole.judges if not judge.spec.writes), None)
    if silent is not None:
        message = f"--method {method.name} has the judge write, and {silent.spec.text} writes nothing"
        raise UsageError(message, hint="name text judges of `svr judges`, or URL#model")
    return whole


def load_dataset(settings: EvalSettings, adapter: Adapter) -> Dataset:
    """Load --data, the sample, or the downloaded benchmark."""
    if settings.sample and settings.data is not None:
        raise UsageError("--sample and --data exclude each other", hint="give one of them")
    if settings.sample:
        if adapter.name not in ("rubricbench", "pairs"):
            raise UsageError(f"no sample for {adapter.name}", hint="svr eval rubricbench --sample")
        return load_sample()
    if settings.data is not None:
        return adapter.load(
            settings.data, lenient=settings.lenient, columns=settings.columns, label_map=settings.label_map
        )
    if not adapter.hub_id:
        raise UsageError(f"svr eval {adapter.name} needs --data PATH", hint="json, jsonl, csv or parquet, or a folder")
    return adapter.load(adapter.fetch(CACHE).files[0], official=True)


def pairs_to_judge(settings: EvalSettings, pairs: Sequence[PreferencePair]) -> Sequence[PreferencePair]:
    """Return the pairs of this machine's shard, in the order of the data."""
    share = settings.limits.share
    return pairs if share == WHOLE else [pairs[place] for place in places_of([pair.prompt for pair in pairs], share)]


def settings_of(run: Run) -> EvalSettings:
    """Return the settings of a run, offline; ArtefactError if its manifest lacks one."""
    config: Mapping[str, Any] = run.manifest.get("config") or {}
    offline = {"offline": True, "dry_run": False, "retry_errors": False, "budget": None, "max_calls": None}
    try:
        settings, wrong = from_plain({**config, **offline}), next((name for name in REQUIRED if name not in config), "")
    except UsageError as error:
        wrong = error.message
    if wrong:
        raise ArtefactError(f"{run.path}: its manifest lacks valid settings ({wrong})", hint="run svr eval again")
    return settings


def data_of(run: Run) -> tuple[Any, Any]:
    """Return the digest of a run's data and its number of pairs."""
    data = run.manifest.get("data") or {}
    return data.get("digest"), data.get("n_pairs")


def judged_pairs(settings: EvalSettings, run: Run) -> Sequence[PreferencePair]:
    """Return the pairs that a run judged; ArtefactError if its data has changed."""
    dataset = load_dataset(settings, get_adapter(settings.benchmark))
    pairs = pairs_to_judge(settings, select_pairs(dataset.pairs, settings.limit, settings.domain))
    if (dataset.digest, len(pairs)) != data_of(run):
        raise ArtefactError(f"{dataset.source} has changed since {run.path}", hint="put the same data back")
    return pairs


def texts_of_run(run: Run, ids: Sequence[str], data: Path) -> Mapping[str, Texts]:
    """Return texts of pairs by id from `data`, which has the run's format; UsageError if it lacks one of the pairs."""
    adapter = get_adapter(str(run.metrics["benchmark"]).removesuffix(SAMPLE_SUFFIX))
    config: Mapping[str, Any] = run.manifest.get("config") or {}
    columns, label_map = (str(config.get(name) or "") for name in ("columns", "label_map"))
    dataset = adapter.load(data, lenient=True, columns=columns, label_map=label_map)
    wanted = set(ids)
    found = {pair.id: Texts.of(pair) for pair in dataset.pairs if pair.id in wanted}
    if lacking := [one for one in ids if one not in found]:
        raise UsageError(f"--data {data} has no pair {lacking[0]!r}", hint="give the data that the run judged")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """An evaluation whose settings are checked and whose method, judges and pairs are known.

    `identity` holds everything that can change an item.
    """

    settings: EvalSettings
    method: Method
    judges: ResolvedJudges
    adapter: Adapter
    dataset: Dataset
    pairs: Sequence[PreferencePair]
    identity: Mapping[str, Any]
    command: Sequence[str]
    started: datetime

    @property
    def digest(self) -> str:
        """Eight hex digits over the identity: runs with the same digest have the same items."""
        data = orjson.dumps(self.identity, option=orjson.OPT_SORT_KEYS, default=str)
        return hashlib.sha256(data).hexdigest()[:8]

    @property
    def folder(self) -> Path:
        """The run folder: --out, or `runs/<bench>-<method>-<judge>-<digest>` with the number of a shard."""
        judge = "".join(c if c.isalnum() or c in "-_.+" else "-" for c in self.judges.name)[:60]
        number, count = self.settings.limits.share
        shard = "" if count == 1 else f"-shard-{number + 1}-of-{count}"
        default = Path("runs") / f"{self.dataset.name}-{self.method.name}-{judge}-{self.digest}{shard}"
        return self.settings.out or default


def prepare(settings: EvalSettings, dataset: Dataset | None = None) -> PreparedRun:
    """Resolve method and judges and load the pairs, opening nothing; SvrError if the run is impossible.

    The digest covers everything that can change an item; it is that of the whole run also for a shard.
    `dataset` replaces the data set of the settings, if the caller has read it already.
    """
    method = choose_method(settings)
    judges = resolve_judges(settings, method)
    adapter = get_adapter(settings.benchmark)
    dataset = load_dataset(settings, adapter) if dataset is None else dataset
    pairs = select_pairs(dataset.pairs, settings.limit, settings.domain)
    if method.facts.human_rubrics and not any(pair.rubrics for pair in pairs):
        raise UsageError(
            f"--method {method.name} judges by human rubrics, and {dataset.source} has no rubrics",
            hint="--method self-rubric has the judge write them, --rubrics FILE gives yours",
        )
    identity = {
        "rubrics": [],
        "bank": None,
        **method.facts.identity,
        "version": __version__,
        "data": dataset.digest,
        "pairs": [len(pairs), pairs[0].id, pairs[-1].id],
        "domains": sorted(settings.domain),
        "method": method.name,
        "order": [settings.order, settings.audit, settings.salt],
        "tie_credit": settings.tie_credit,
        **judges.identity(),
    }
    return PreparedRun(
        settings=settings,
        method=method,
        judges=judges,
        adapter=adapter,
        dataset=dataset,
        pairs=pairs_to_judge(settings, pairs),
        identity=identity,
        command=command_line(),
        started=datetime.now(UTC),
    )


def load_sample() -> Dataset:
    """Load the small set shipped with the package, in RubricBench's schema; a note says that it is not a benchmark."""
    with as_file(files("svr_async.adapters") / "samples" / "rubricbench_sample.jsonl") as path:
        dataset = get_adapter("rubricbench").load(path)
    return replace(dataset, name="rubricbench-sample", notes=("the sample shipped with svr-async, not a benchmark",))
