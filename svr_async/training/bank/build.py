"""Between candidates and bank rubrics: what a fit learned is added, what several banks knew is brought together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum

from svr_async.core.integrity import joined_marks
from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import rubric_id
from svr_async.errors import UsageError
from svr_async.scoring.bank import (
    MAX_ALIASES,
    MAX_NOTE_CHARS,
    MAX_SOURCES,
    UNIFORM,
    BankRubric,
    InferenceSettings,
    RubricBank,
)
from svr_async.training.bank.merge import BANK_CAP, MERGE_CUTOFF, Candidate, merge

EXAMPLES = 5
DOMAIN_SHARE = 0.5  # a rubric belongs to a domain that more than half of its source pairs come from


def bank_rubric(
    candidate: Candidate,
    *,
    weight: float = 1.0,
    activation_rate: float = 0.0,
    support_count: int = 0,
    example_prompts: Sequence[str] = (),
    domains: Mapping[str, str] | None = None,
) -> BankRubric:
    """Return a candidate as a bank's rubric, with what the fit found out; `domains` maps pair ids to domains."""
    return BankRubric(
        rubric=candidate.rubric,
        weight=float(weight),
        domain=main_domain(candidate.source_pair_ids, domains or {}),
        observed_count=candidate.observed_count,
        support_count=support_count,
        activation_rate=float(activation_rate),
        aliases=tuple(alias for alias in candidate.aliases if len(alias) <= MAX_NOTE_CHARS)[:MAX_ALIASES],
        criterion=candidate.criterion,
        source_pair_ids=candidate.source_pair_ids[:MAX_SOURCES],
        example_prompts=tuple(example_prompts)[:EXAMPLES],
    )


def refuse_long_names(pairs: Iterable[PreferencePair]) -> None:
    """Raise UsageError where a pair's id or domain is longer than a bank holds."""
    long = next((pair for pair in pairs if max(len(pair.id), len(pair.domain)) > MAX_NOTE_CHARS), None)
    if long is not None:
        raise UsageError(
            f"the pair {long.id[:40]}… has an id of {len(long.id):,} characters and a domain of {len(long.domain):,}",
            hint=f"a bank holds ids and domains of at most {MAX_NOTE_CHARS:,}; shorten them",
        )


def main_domain(pair_ids: Iterable[str], domains: Mapping[str, str]) -> str:
    """Return the domain of more than half of these pairs; empty for a rubric of several domains."""
    counts = Counter(domains[pair] for pair in pair_ids if pair in domains)
    if not counts:
        return ""
    name, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return name if count > DOMAIN_SHARE * counts.total() else ""


def candidate_of(entry: BankRubric) -> Candidate:
    """Return a bank's rubric as a candidate, without what the fit found out."""
    return Candidate(
        rubric=entry.rubric,
        source_pair_ids=entry.source_pair_ids,
        observed_count=entry.observed_count,
        aliases=entry.aliases,
        criterion=entry.criterion,
    )


def merge_banks(banks: Sequence[RubricBank], *, cutoff: float = MERGE_CUTOFF, cap: int | None = BANK_CAP) -> RubricBank:
    """Return one bank with the rubrics of all, near-identical ones merged as in training; it still needs a fit.

    Selectors of different fits cannot be joined, so every prompt gets the rubrics with the largest weights. A weight is
    the mean of the merged rubrics' importances by their counts: weight times activation rate, since a fit may leave all
    weights equal and tell rubrics apart by how active they are. Activation rates are dropped.
    """
    entries = [replace(entry, weight=value) for bank in banks for entry, value in _importances(bank)]
    merged = merge([candidate_of(entry) for entry in entries], cutoff=cutoff, cap=cap)
    home = {rubric_id(text): place for place, candidate in enumerate(merged) for text in candidate.texts}
    parts: list[list[BankRubric]] = [[] for _ in merged]
    for entry in entries:
        if entry.id in home:
            parts[home[entry.id]].append(entry)
    rubrics = (_joined(candidate, members) for candidate, members in zip(merged, parts, strict=True))
    return RubricBank(
        rubrics=tuple(sorted(rubrics, key=lambda entry: (-entry.weight, entry.id))),
        selector_kind=UNIFORM,
        inference=_shared([bank.inference for bank in banks]),
        name=" + ".join(bank.name or bank.digest[:8] for bank in banks),
        judge=_agreed([bank.judge for bank in banks]),
        marks=joined_marks(bank.marks for bank in banks),
        licence=_agreed([bank.licence for bank in banks]),
        prompts_digest=_agreed([bank.prompts_digest for bank in banks]),
        data_digests={name: digest for bank in banks for name, digest in bank.data_digests.items()},
        notes=("Merged from several banks and not fitted since: the selector is the same for every prompt.",),
    )


def _importances(bank: RubricBank) -> Iterator[tuple[BankRubric, float]]:
    """Yield each rubric with its importance for a prompt in the mean; alpha is 1 / n where a bank gives no rates."""
    rated = any(entry.activation_rate for entry in bank.rubrics)
    for entry in bank.rubrics:
        if not entry.disabled:
            yield entry, entry.weight * (1.0 if entry.added else entry.activation_rate if rated else 1 / len(bank))


def _joined(candidate: Candidate, members: Sequence[BankRubric]) -> BankRubric:
    counts = [max(1, entry.observed_count) for entry in members]
    domains = {entry.domain for entry in members}
    return BankRubric(
        rubric=candidate.rubric,
        weight=fsum(n * entry.weight for n, entry in zip(counts, members, strict=True)) / sum(counts),
        domain=domains.pop() if len(domains) == 1 else "",
        observed_count=candidate.observed_count,
        support_count=sum(entry.support_count for entry in members),
        aliases=candidate.aliases[:MAX_ALIASES],
        source_pair_ids=candidate.source_pair_ids[:MAX_SOURCES],
        example_prompts=tuple(dict.fromkeys(key for entry in members for key in entry.example_prompts))[:EXAMPLES],
    )


def _agreed(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else ""


def _shared(settings: Sequence[InferenceSettings]) -> InferenceSettings:
    return replace(settings[0], direct=False) if len(set(settings)) == 1 else InferenceSettings()
