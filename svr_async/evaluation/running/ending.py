"""The end of a run, of a share of it, or of shares put together: items and what was asked become a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from svr_async.adapters.pair_files import taught_digest, usable
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.costs import JudgeCost, joined
from svr_async.evaluation.items import Item, rephrased_counts
from svr_async.evaluation.metrics import SCORED
from svr_async.evaluation.running.dry_run import told_stages
from svr_async.evaluation.running.prepared import Prepared
from svr_async.evaluation.running.record import RunFacts, end_run
from svr_async.judges.reply_text import NO_NONCE
from svr_async.judges.shares import WHOLE, share_in_words

SEEN = ("models_seen", "fingerprints", "refused")  # of a judge's facts: lists of what was met on the way


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one machine asked for its items. `usd` is what it paid, `tallied` what the method itself has counted."""

    judge: Mapping[str, Any]
    costs: tuple[JudgeCost, ...]
    usd: float | None
    tallied: Mapping[str, Any]
    notes: tuple[str, ...]
    wall_s: float

    @property
    def stats(self) -> EngineStats | None:
        """The facts of all engines as one; None where nothing is sent."""
        found = [cost.stats for cost in self.costs if cost.stats is not None]
        return joined(found, self.usd) if found else None


def joined_asked(parts: Sequence[Asked]) -> Asked:
    """Return what machines asked as if one had: sums, what any of them met, and the time of the slowest."""
    first = parts[0]
    return replace(
        first,
        judge=_joined_facts([part.judge for part in parts]),
        costs=tuple(_joined_cost(each) for each in zip(*(part.costs for part in parts), strict=True)),
        usd=_sum([part.usd for part in parts]),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        wall_s=max(part.wall_s for part in parts),
    )


def _joined_cost(parts: Sequence[JudgeCost]) -> JudgeCost:
    found = [part.stats for part in parts if part.stats is not None]
    return replace(parts[0], stats=joined(found, _sum([stats.usd for stats in found])) if found else None)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _joined_facts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    facts = dict(parts[0])
    for name in SEEN:
        if any(name in part for part in parts):
            facts[name] = sorted({one for part in parts for one in part.get(name, ())})
    if "judges" in facts:
        facts["judges"] = [_joined_facts(each) for each in zip(*(part["judges"] for part in parts), strict=True)]
    return facts


def end_judging(run: Prepared, items: Sequence[Item], parts: Sequence[Asked]) -> dict[str, Any]:
    """Write the folder of a run whose questions these parts have asked; return its metrics."""
    asked, own = joined_asked(parts), run.method.facts.own
    counted = {} if own is None else own.counted([part.tallied for part in parts])
    facts = RunFacts(
        judge=asked.judge,
        stats=asked.stats,
        costs=asked.costs,
        wall_s=asked.wall_s,
        complete=len(items) == len(run.record.pairs),
        notes=(
            *asked.notes,
            *nonce_notes(items),
            *_rephrase_notes(run, items),
            *_own_notes(run, counted),
            *_share_notes(run),
            *_taught_notes(run),
        ),
        method=counted,
    )
    return end_run(run.folder, run.record, items, facts)


def _share_notes(run: Prepared) -> tuple[str, ...]:
    share = run.settings.limits.share
    return () if share == WHOLE else (f"shard {share_in_words(share)} of a run: svr merge makes the run of all shards",)


def _taught_notes(run: Prepared) -> tuple[str, ...]:
    """Say so where the bank was trained on the data set that is judged."""
    use, data = run.method.facts.bank, run.record.dataset
    if use is None or not use.taught_by:
        return ()
    if taught_digest(data.digest, (pair.id for pair in data.pairs if usable(pair))) not in use.taught_by:
        return ()
    return ("the bank was trained on these very pairs: how it does on new ones, only others tell (svr data split)",)


def _own_notes(run: Prepared, counted: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what the method asked, and which prompts of it are ours, written to its description."""
    own = run.method.facts.own
    if own is None:
        return ()
    from svr_async.judges.templates import load_templates

    shipped = load_templates(names=own.templates).digests
    ours = [name for name, digest in shipped.items() if run.record.prompts.get(name) == digest]
    told = [f"asked by stage: {told_stages(counted)}"] if counted else []
    if ours:
        told.append(f"prompts reconstructed from the description of {run.method.name}, not its own: {', '.join(ours)}")
    return tuple(told)


def nonce_notes(items: Sequence[Item]) -> tuple[str, ...]:
    """Say how many verdicts came without the nonce that was asked for, by which they are known to be answers."""
    verdicts = [item for item in items if item.outcome in SCORED]
    bare = sum(NO_NONCE in item.flags for item in verdicts)
    return (f"{bare:,} of {len(verdicts):,} verdicts came without the nonce that was asked for",) if bare else ()


def _rephrase_notes(run: Prepared, items: Sequence[Item]) -> tuple[str, ...]:
    """Say how many rubrics were judged in their own words because no sure wording for the prompt came back."""
    shown, kept = rephrased_counts(items) if run.settings.rephrase else (0, 0)
    return (f"{kept} of {shown} rubrics kept their own words: the rephrasing gave none for them",) if kept else ()
