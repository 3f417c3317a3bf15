"""Writes run folders: manifest, items, metrics, examples, each file whole or not at all."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters.contract import Adapter
from svr_async.adapters.records import Dataset
from svr_async.core.files import write_atomic, write_lines
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.provenance import versions
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.evaluation import metrics as counting
from svr_async.evaluation.items import MISTAKES, Item, confident_mistakes
from svr_async.evaluation.metrics import JudgeCost, costs_block, plan_block
from svr_async.evaluation.plan import OrderPolicy
from svr_async.evaluation.run_folder import RunFolder, Texts, write_reasons
from svr_async.evaluation.settings import EvalSettings
from svr_async.judges.limits import WHOLE, share_in_words
from svr_async.version import __version__

EXAMPLE_CHARS = 20_000
DECISIVE = (
    "judge", "jury", "jury_rule", "escalate_to", "escalate_below", "base_url", "bank", "top_k", "rephrase", "rubrics",
    "option", "limit", "domain", "preset", "order", "audit", "audit_below", "salt", "tie_credit",
)  # fmt: skip
"""Settings that decide what a run's items are."""
PACKAGES = ("aiohttp", "diskcache", "orjson", "tenacity", "numpy")
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run before it is judged. `identity` holds everything that can change an item."""

    settings: EvalSettings
    adapter: Adapter
    dataset: Dataset
    pairs: Sequence[PreferencePair]
    method: str
    judge: str
    identity: Mapping[str, Any]
    command: Sequence[str]
    prompts: Mapping[str, str]
    started: datetime

    @property
    def digest(self) -> str:
        """Eight hex digits over the run's identity: runs with the same digest have the same items."""
        data = orjson.dumps(self.identity, option=orjson.OPT_SORT_KEYS, default=str)
        return hashlib.sha256(data).hexdigest()[:8]

    def default_folder(self) -> Path:
        """Return `runs/<bench>-<method>-<judge>-<digest>`, with the number of a shard."""
        judge = "".join(c if c.isalnum() or c in "-_.+" else "-" for c in self.judge)[:60]
        number, count = self.settings.limits.share
        shard = "" if count == 1 else f"-shard-{number + 1}-of-{count}"
        return Path("runs") / f"{self.dataset.name}-{self.method}-{judge}-{self.digest}{shard}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts of an ended run; `costs` has an entry for each judge, `method` the method's own counts."""

    judge: Mapping[str, Any]
    stats: EngineStats | None
    costs: tuple[JudgeCost, ...]
    wall_s: float
    complete: bool
    notes: tuple[str, ...] = ()
    method: Mapping[str, Any] = field(default_factory=dict)


def begin_run(folder: Path, record: RunRecord, judge: Mapping[str, Any]) -> None:
    """Claim the folder with a manifest; UsageError if it has another run, or another shard of this one."""
    path, hint = RunFolder(folder).manifest, "name another folder with --out"
    with suppress(AttributeError, OSError, TypeError, ValueError):  # a missing or damaged manifest is written again
        earlier = orjson.loads(path.read_bytes())
        number, count = earlier.get("config", {}).get("share") or WHOLE
        share, digest = (number, count), earlier.get("digest")
        if digest not in {None, record.digest}:
            raise UsageError(f"{folder} holds another run: {_differences(earlier, record)}", hint=hint)
        if digest is not None and share != record.settings.limits.share:
            what = "all of this run" if share == WHOLE else f"shard {share_in_words(share)} of this run"
            raise UsageError(f"{folder} holds {what}", hint=hint)
    write_atomic(path, _pretty(_manifest(record, judge, ended=None, complete=False)))


def _differences(earlier: Mapping[str, Any], record: RunRecord) -> str:
    """Say what differs between a run and the one in a folder: settings by name, then the data."""
    earlier = {**earlier, "config": {**(earlier.get("config") or {}), "method": earlier.get("method")}}
    ours = {**record.settings.for_manifest(), "method": record.method}
    old, new = (orjson.loads(orjson.dumps(one, default=str)) for one in (earlier.get("config") or {}, ours))
    names = [name for name in ("method", *DECISIVE) if old.get(name) != new.get(name)]
    found = [f"{name.replace('_', '-')} {_word(old.get(name))} there, {_word(new.get(name))} here" for name in names]
    if (earlier.get("data") or {}).get("digest") != record.dataset.digest:
        found.append("the data differ")
    return "; ".join(found) or "prompts, profile or version differ"


def _word(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "not set" if value is None else str(value)


def write_results(folder: Path, record: RunRecord, items: Sequence[Item], facts: RunFacts) -> dict[str, Any]:
    """Write items, reasons, metrics, examples and the manifest; return the metrics."""
    files = RunFolder(folder)
    write_lines(files.items, (item.to_line() for item in items))
    write_reasons(folder, items)
    metrics = _metrics(record, items, facts)
    write_atomic(files.metrics, _pretty(metrics))
    write_atomic(files.examples, _examples(record.pairs, items))
    manifest = _manifest(record, facts.judge, ended=datetime.now(UTC), complete=facts.complete)
    write_atomic(files.manifest, _pretty(manifest))
    return metrics


def _metrics(record: RunRecord, items: Sequence[Item], facts: RunFacts) -> dict[str, Any]:
    """Return metrics.json; keys are stable, accuracies are fractions of 1."""
    settings, prompts = record.settings, dict[str, int]()

    def pairs() -> Iterator[PreferencePair]:  # may read each pair again, so one pass also notes its prompt
        for pair in record.pairs:
            prompts[pair.id] = hash(prompt_text(pair.prompt))
            yield pair

    official = counting.official_block(record.adapter, pairs(), items, float(settings.tie_credit))
    return {
        "benchmark": record.dataset.name,
        "method": record.method,
        "judge": record.judge,
        "judge_label": facts.judge["label"],
        "bank": settings.bank,
        **counting.accuracy_block(items, prompts),
        "by_domain": counting.by_domain(items, prompts),
        "official": official,
        "outcomes": dict(counting.outcome_counts(items)),
        "order": counting.order_block(items, OrderPolicy(settings.order), settings.audit_below),
        **plan_block(items),
        **costs_block(facts.costs, facts.stats),
        **({"method_calls": dict(facts.method)} if facts.method else {}),
        "wall_s": round(facts.wall_s, 3),
        "complete": facts.complete,
        "left_out": record.dataset.left_out(),
        "notes": [*record.dataset.notes, *facts.notes],
    }


def _manifest(record: RunRecord, judge: Mapping[str, Any], *, ended: datetime | None, complete: bool) -> dict[str, Any]:
    data = record.dataset
    return {
        "schema_version": SCHEMA_VERSION,
        "digest": record.digest,
        "svr_version": __version__,
        "command": list(record.command),
        "config": record.settings.for_manifest(),
        "benchmark": data.name,
        "method": record.method,
        "data": {
            "path": str(data.source),
            "digest": data.digest,
            "n_rows": data.n_rows,
            "n_pairs": len(record.pairs),
            "official": data.official,
            "notes": list(data.notes),
            "skipped": dict(data.skipped),
            "readings": list(data.readings),
            "origin": data.origin,
        },
        "judge": dict(judge),
        "prompts": dict(record.prompts),
        "sample": record.settings.sample,
        "started": record.started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds") if ended else None,
        "complete": complete,
        "device": platform.machine(),
        "versions": versions(PACKAGES),
    }


def _examples(pairs: Sequence[PreferencePair], items: Sequence[Item]) -> bytes:
    wanted = {item.id for item in confident_mistakes(items, MISTAKES)}
    texts = ((pair.id, asdict(Texts.of(pair))) for pair in pairs if pair.id in wanted)
    rows = ({"id": key} | {name: _capped(text) for name, text in found.items()} for key, found in texts)
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _capped(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= EXAMPLE_CHARS:
        return text
    return f"{text[:EXAMPLE_CHARS]}\n… {len(text) - EXAMPLE_CHARS} more characters"


def _pretty(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
