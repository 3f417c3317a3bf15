"""Looking over a bank: rubrics that are vague, double, opposed, repeated, idle, too narrow, too long or broken."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from svr_async.core.rubric import Check
from svr_async.core.table import Line, Parts, Table
from svr_async.judges.rules.registry import inverse_of, problem_with
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.training.bank.distinct import opposed, profile, stems
from svr_async.training.bank.leaks import self_contained
from svr_async.training.bank.merge import MERGE_CUTOFF
from svr_async.training.bank.near_duplicates import repeating_pairs, similar_pairs

MAX_WORDS = 40
SPECIFIC_BELOW = 3  # a rubric seen this often is not one response's peculiarity
_VAGUE = frozenset(
    """
    good great nice fine bad poor better best well quality high higher low appropriate appropriately adequate adequately
    proper properly suitable suitably helpful helpfully useful valuable effective effectively excellent decent
    reasonable reasonably satisfying satisfactory sufficient sufficiently optimal ideal overall generally nicely
    """.split()  # noqa: SIM905  (reads better than forty quoted words)
)
_FRAME = frozenset(
    """
    response responses answer answers reply output text user users prompt question request assistant model overall
    content way manner level format formatting style tone language must shall may
    """.split()  # noqa: SIM905  (the same)
)
_VERB = (
    r"(?:is|are|has|have|do|does|(?:use|provide|include|explain|avoid|cite|give|state|list|show|mention|describe|address"
    r"|follow|contain|keep|offer|present|identify|identifies|answer|acknowledge|refuse|support|begin|start|end|remain"
    r"|maintain|ensure|make|write|handle|return|name|quote|define|compare|note|warn|ask|suggest|summari[sz]e|justify"
    r"|justifies|demonstrate|verify|verifies|cover|respect|match|correct|stay|refer|point|discuss|focus|adhere|create"
    r"|recommend|encourage|invite|convey|display|comply|complies|apply|applies|specify|specifies|clarify|clarifies)"
    r"(?:e?s)?)"
)
_JOINED_VERBS = re.compile(
    rf"\b{_VERB}\b.*?(?:,|;|\band\b|\bor\b|\bbut\b|\bas well as\b|\bwhile also\b)\s+(?:also |then |it |must |should )*"
    rf"(?:(?:does|do|must|should) not |never |clearly |correctly |explicitly )*{_VERB}\b (?!by\b)",
    re.IGNORECASE,
)
_JOINED_QUALITIES = re.compile(r"\b(?:is|are|be|remains?) (?:\w+, )*\w+,? and (?:\w+ly )?\w+\W*$", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"\d{3,}|\d[.,]\d|\d+\s*[=×·^/*]")


class Kind(StrEnum):
    """What a finding is about."""

    VAGUE = "vague"
    DOUBLE = "double_barrelled"
    OPPOSED = "contradiction"
    DUPLICATE = "duplicate"
    IDLE = "never_active"
    SPECIFIC = "too_specific"
    DEPENDENT = "not_self_contained"
    LONG = "too_long"
    BROKEN = "broken_check"


ADVICE = {
    Kind.VAGUE: "say what a judge should look for: two people should give the same verdict",
    Kind.DOUBLE: "split it: a response can satisfy one half and fail the other",
    Kind.OPPOSED: "keep one, or say in the text for which prompts each holds",
    Kind.DUPLICATE: "merge the two: they count the same thing twice",
    Kind.IDLE: "prune it: no training prompt selects it",
    Kind.SPECIFIC: "say it without the detail of one response, or drop it",
    Kind.DEPENDENT: "say it without pointing at another response",
    Kind.LONG: f"shorten it to at most {MAX_WORDS} words",
    Kind.BROKEN: "mend the check or remove it: a program cannot decide it",
}


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is not well with a rubric; `other_id` is the second rubric where two are concerned."""

    rubric_id: str
    kind: Kind
    text: str
    advice: str
    detail: str = ""
    other_id: str = ""


def lint(rubrics: Sequence[BankRubric]) -> tuple[LintFinding, ...]:
    """Return everything that is not well with a bank's rubrics that are not disabled, by rubric in their order."""
    rubrics = [entry for entry in rubrics if not entry.disabled]
    trained = any(entry.activation_rate > 0 for entry in rubrics)
    found = [*_alone(rubrics, trained=trained), *_opposites(rubrics), *_duplicates(rubrics)]
    place = {entry.id: number for number, entry in enumerate(rubrics)}
    kinds = list(Kind)
    return tuple(sorted(found, key=lambda f: (place[f.rubric_id], kinds.index(f.kind), place.get(f.other_id, -1))))


def _alone(rubrics: Sequence[BankRubric], *, trained: bool) -> Iterator[LintFinding]:
    for entry in rubrics:
        for kind, detail in _faults(entry, trained=trained):
            yield LintFinding(entry.id, kind, entry.text, ADVICE[kind], detail)


def _faults(entry: BankRubric, *, trained: bool) -> Iterator[tuple[Kind, str]]:
    text, check = entry.text, entry.rubric.check
    if check is not None and (problem := problem_with(check)):
        yield Kind.BROKEN, problem
    if check is None and (words := vague_words(text)):
        yield Kind.VAGUE, words
    if check is None and double_barrelled(text):
        yield Kind.DOUBLE, ""
    if trained and entry.activation_rate == 0 and not entry.added:
        yield Kind.IDLE, f"weight {entry.weight:.3f}"
    rare = max(entry.observed_count, len(entry.source_pair_ids)) < SPECIFIC_BELOW
    if check is None and rare and (detail := specifics(text)):
        yield Kind.SPECIFIC, detail
    if not self_contained(text):
        yield Kind.DEPENDENT, ""
    if (count := len(text.split())) > MAX_WORDS:
        yield Kind.LONG, f"{count} words"


def vague_words(text: str) -> str:
    """Return the vague words of a text that says little else; empty where it names something to look for."""
    words = profile(text).words
    vague = words & _VAGUE
    return ", ".join(sorted(vague)) if vague and len(stems(words - _VAGUE - _FRAME)) <= 1 else ""


def double_barrelled(text: str) -> bool:
    """Tell whether a text joins two criteria, as in "cites a source and stays polite" or "is clear and concise"."""
    plain = " ".join(text.split())
    return bool(_JOINED_VERBS.search(plain) or _JOINED_QUALITIES.search(plain))


def specifics(text: str) -> str:
    """Return what ties a text to one response: quoted words, names, long numbers and formulas."""
    found = profile(text)
    numbers = _LONG_NUMBER.findall(text)
    return ", ".join([*(f'"{quote}"' for quote in found.quotes), *sorted(found.names), *numbers][:4])


def _opposites(rubrics: Sequence[BankRubric]) -> Iterator[LintFinding]:
    """Yield the pairs that ask for opposite things and both weigh something."""
    weighing = [entry for entry in rubrics if entry.weight > 0]
    for one, other in sorted(_maybe_opposed(weighing)):
        first, second = weighing[one], weighing[other]
        if opposed(first.rubric, second.rubric):
            yield _of_two(Kind.OPPOSED, first, second)


def _maybe_opposed(rubrics: Sequence[BankRubric]) -> set[tuple[int, int]]:
    """Return pairs that share all words but one at most, or whose checks are each other's inverse."""
    shelves: dict[object, list[int]] = defaultdict(list)
    for place, entry in enumerate(rubrics):
        carried = stems(profile(entry.text).words)
        for key in {carried, *(carried - {word} for word in carried)}:
            shelves[key].append(place)
        for check in _check_keys(entry.rubric.check):
            shelves[check].append(place)
    return {pair for places in shelves.values() for pair in combinations(sorted(set(places)), 2)}


def _check_keys(check: Check | None) -> set[Check]:
    if check is None or problem_with(check):
        return set()
    inverse = inverse_of(check)
    return {check} if inverse is None else {check, inverse}


def _duplicates(rubrics: Sequence[BankRubric]) -> Iterator[LintFinding]:
    """Yield the pairs that merging would make one."""
    similar = similar_pairs([entry.text for entry in rubrics], MERGE_CUTOFF)
    same = repeating_pairs(similar, [entry.rubric for entry in rubrics])
    for one, other, value in zip(same.first.tolist(), same.second.tolist(), same.similarity.tolist(), strict=True):
        yield _of_two(Kind.DUPLICATE, rubrics[one], rubrics[other], f"similarity {value:.2f}")


def _of_two(kind: Kind, first: BankRubric, second: BankRubric, detail: str = "") -> LintFinding:
    about = f"{detail}, with {second.id}" if detail else f"with {second.id}"
    return LintFinding(first.id, kind, first.text, ADVICE[kind], f"{about}: {second.text}", second.id)


def findings_sheet(bank: RubricBank, found: Sequence[LintFinding]) -> Parts:
    """Yield the findings by kind, each with its advice once."""
    if not found:
        yield Line(f"nothing to find fault with in {len(bank)} rubrics")
        return
    for kind in dict.fromkeys(finding.kind for finding in sorted(found, key=lambda finding: finding.kind)):
        group = [finding for finding in found if finding.kind is kind]
        yield Table(caption=f"{kind.value}: {len(group)}  —  {group[0].advice}")
        yield Table(("id", "rubric"), tuple((finding.rubric_id, _worded(finding)) for finding in group), texts=1)


def _worded(finding: LintFinding) -> str:
    return f"{finding.text}  ({finding.detail})" if finding.detail else finding.text
