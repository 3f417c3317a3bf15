"""Finds the rubrics of a bank that are vague, double, opposed, repeated, idle, too narrow, too long or broken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from svr_async.core.rubric import Rubric
from svr_async.core.table import Line, Parts, Table
from svr_async.judges.rules.registry import inverse_of, problem_with
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.training.bank.criteria import opposite_words, profile, stems
from svr_async.training.bank.merge import near_duplicates
from svr_async.training.bank.overlap import self_contained

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


ADVICE = {  # in the order in which findings are listed
    "vague": "say what a judge should look for: two people should give the same verdict",
    "double_barrelled": "split it: a response can satisfy one half and fail the other",
    "contradiction": "keep one, or say in the text for which prompts each holds",
    "duplicate": "merge the two: they count the same thing twice",
    "never_active": "prune it: no training prompt selects it",
    "too_specific": "say it without the detail of one response, or drop it",
    "not_self_contained": "say it without pointing at another response",
    "too_long": f"shorten it to at most {MAX_WORDS} words",
    "broken_check": "fix the check or remove it: a program cannot decide it",
}


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One defect of a rubric; `kind` is a key of ADVICE, `other_id` the second rubric if two are concerned."""

    rubric_id: str
    kind: str
    text: str
    advice: str
    detail: str = ""
    other_id: str = ""


def lint(rubrics: Sequence[BankRubric]) -> tuple[LintFinding, ...]:
    """Return the defects of a bank's rubrics that are not disabled, by rubric in their order."""
    rubrics = [entry for entry in rubrics if not entry.disabled]
    trained = any(entry.activation_rate > 0 for entry in rubrics)
    findings = [
        LintFinding(entry.id, kind, entry.text, ADVICE[kind], detail)
        for entry in rubrics
        for kind, detail in _defects(entry, trained=trained)
    ]
    for first, second in combinations([entry for entry in rubrics if entry.weight > 0], 2):
        if opposed(first.rubric, second.rubric):
            findings.append(_of_two("contradiction", first, second))
    for one, other, value in near_duplicates([entry.rubric for entry in rubrics]):
        findings.append(_of_two("duplicate", rubrics[one], rubrics[other], f"similarity {value:.2f}, "))
    place = {entry.id: number for number, entry in enumerate(rubrics)}
    kinds = list(ADVICE)
    return tuple(sorted(findings, key=lambda f: (place[f.rubric_id], kinds.index(f.kind), place.get(f.other_id, -1))))


def _of_two(kind: str, first: BankRubric, second: BankRubric, detail: str = "") -> LintFinding:
    detail = f"{detail}with {second.id}: {second.text}"
    return LintFinding(first.id, kind, first.text, ADVICE[kind], detail, second.id)


def _defects(entry: BankRubric, *, trained: bool) -> Iterator[tuple[str, str]]:
    text, check = entry.text, entry.rubric.check
    if check is None:
        if words := vague_words(text):
            yield "vague", words
        if double_barrelled(text):
            yield "double_barrelled", ""
        rare = max(entry.observed_count, len(entry.source_pair_ids)) < SPECIFIC_BELOW
        if rare and (detail := specifics(text)):
            yield "too_specific", detail
    elif problem := problem_with(check):
        yield "broken_check", problem
    if trained and entry.activation_rate == 0 and not entry.added:
        yield "never_active", f"weight {entry.weight:.3f}"
    if not self_contained(text):
        yield "not_self_contained", ""
    if (count := len(text.split())) > MAX_WORDS:
        yield "too_long", f"{count} words"


def vague_words(text: str) -> str:
    """Return the vague words of a text that says little else; empty if it names something to look for."""
    words = profile(text).words
    vague = words & _VAGUE
    return ", ".join(sorted(vague)) if vague and len(stems(words - _VAGUE - _FRAME)) <= 1 else ""


def double_barrelled(text: str) -> bool:
    """Return whether a text joins two criteria, as in "cites a source and stays polite" or "is clear and concise"."""
    plain = " ".join(text.split())
    return bool(_JOINED_VERBS.search(plain) or _JOINED_QUALITIES.search(plain))


def specifics(text: str) -> str:
    """Return what ties a text to one response: quoted words, names, long numbers and formulas."""
    details = profile(text)
    numbers = _LONG_NUMBER.findall(text)
    return ", ".join([*(f'"{quote}"' for quote in details.quotes), *sorted(details.names), *numbers][:4])


def opposed(first: Rubric, second: Rubric) -> bool:
    """Return whether one rubric asks for what the other forbids: the same words except a negation or an opposite.

    Rubrics that both carry a check are opposed if one check is the registry's inverse of the other.
    """
    if first.check is not None and second.check is not None:
        if problem_with(first.check) or problem_with(second.check):
            return False
        return inverse_of(first.check) == second.check or inverse_of(second.check) == first.check
    one, other = profile(first.text), profile(second.text)
    if one.numbers != other.numbers or one.quotes != other.quotes:
        return False
    here, there = stems(one.words), stems(other.words)
    here, there = here - there, there - here
    if (one.negations - other.negations) % 2:
        return not here and not there
    return len(here) == len(there) == 1 and opposite_words(here, there)


def findings_sheet(bank: RubricBank, findings: Sequence[LintFinding]) -> Parts:
    """Yield the findings by kind, each with its advice once."""
    if not findings:
        yield Line(f"no defects in {len(bank)} rubrics")
    for kind in sorted({finding.kind for finding in findings}):
        group = [finding for finding in findings if finding.kind == kind]
        yield Table(caption=f"{kind}: {len(group)}  —  {group[0].advice}")
        rows = [(one.rubric_id, f"{one.text}  ({one.detail})" if one.detail else one.text) for one in group]
        yield Table(("id", "rubric"), rows, texts=1)
