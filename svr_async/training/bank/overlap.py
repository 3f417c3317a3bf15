"""Texts that share a run of 13 words: rubrics that quote their pair, and training pairs that overlap with benchmarks.

Other reasons to refuse a proposed rubric are here, too: an empty or a long text, and a text about "response A".
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric
from svr_async.core.table import Line, Parts, Table

RUN_WORDS = 13  # the n-gram length of the paper's decontamination
# Thai, Lao, Burmese, Khmer, kana and Chinese characters: scripts that write no spaces between words.
SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
Run = tuple[str, ...]
_SPACELESS = re.compile(f"[{SPACELESS}]")
_WORD = re.compile(rf"[{SPACELESS}]|[^\W_{SPACELESS}]+")


# ── runs of words ───────────────────────────────────────────────────────────────────────────────────────────────────


def words_of(text: str) -> list[str]:
    """Return the words of a text: HTML entities read, Unicode folded (NFKC), without case and punctuation.

    Scripts without spaces give a word for each character; two of them count as one word.
    """
    return _WORD.findall(unicodedata.normalize("NFKC", html.unescape(text)).casefold())


def runs_of(text: str) -> Iterator[Run]:
    """Yield each run of 13 words; a shorter text of at least 6 words is one run."""
    words = words_of(text)
    halves = [1 if len(word) == 1 and _SPACELESS.match(word) else 2 for word in words]
    if RUN_WORDS // 2 <= sum(halves) / 2 < RUN_WORDS:
        yield tuple(words)
    start = size = 0
    for end, half in enumerate(halves, 1):
        size += half
        while size - halves[start] >= 2 * RUN_WORDS:
            size -= halves[start]
            start += 1
        if size >= 2 * RUN_WORDS:
            yield tuple(words[start:end])


# ── rubrics ─────────────────────────────────────────────────────────────────────────────────────────────────────────


_ONE = "responses?|candidates?|repl(?:y|ies)|completions?|assistants?"
_LABELLED = re.compile(
    rf"(?i:\b(?:{_ONE}|models?|outputs?)) (?:[AB]\b|[12](?=\s*(?:$|[.,;:?!)'’])))"
    r"|\b(?:Response|Candidate|Reply|Completion|Assistant|Model|Output|Answer) [12]\b"
    r"|(?i:\b(?:in|than|to|of|from|by|like|unlike|with) answer) [AB]\b"
    r"|\b(?:RESPONSE|ANSWER|CANDIDATE|ASSISTANT|OUTPUT|response|candidate|assistant|answer)_?(?:[AB12]|a|b)\b(?<=_.)"
)
_RELATIVE = re.compile(
    rf"\b(?:first|second) (?:candidate )?(?:{_ONE})\b"
    rf"|\b(?:other|former|latter|alternative|competing|opposing|winning|losing|chosen|rejected|preferred|dispreferred"
    rf"|better|worse|stronger|weaker|reference|gold|ground[- ]truth) (?:candidate |model )?"
    rf"(?:{_ONE}|answers?|solution)\b"
    rf"|\b(?:both|either|neither) (?:of the )?(?:two )?(?:candidate )?(?:{_ONE})\b"
    r"|(?:^|[.;:] )(?:both|neither) answers?\b"
    r"|\b(?:than|compared (?:to|with)) the (?:other|alternative|former|latter|rival)\b(?! [a-z])"
    r"|\bas (?:shown|seen|described|mentioned|stated|noted|listed)? ?(?:above|below|previously|earlier)\b"
    r"|\b(?:above|below|previous|preceding|aforementioned) (?:rubric|criteri(?:on|a))s?\b",
    re.IGNORECASE,
)


def screen(rubrics: Iterable[Rubric], pair: PreferencePair) -> list[Rubric]:
    """Return the rubrics proposed for a pair that may enter the bank."""
    prompt = frozenset(runs_of(prompt_text(pair.prompt)))
    responses = frozenset((*runs_of(pair.chosen), *runs_of(pair.rejected)))
    return [rubric for rubric in rubrics if not refusal(rubric.text, prompt, responses)]


def refusal(text: str, prompt: frozenset[Run] = frozenset(), responses: frozenset[Run] = frozenset()) -> str:
    """Return the first reason to refuse a rubric text; empty to take it."""
    if not any(char.isalnum() for char in text):
        return "empty"
    if len(text) > MAX_RUBRIC_CHARS:
        return "too_long"
    if not self_contained(text):
        return "not_self_contained"
    runs = frozenset(runs_of(text))
    return "quotes_response" if runs & responses else "quotes_prompt" if runs & prompt else ""


def self_contained(text: str) -> bool:
    """Return whether a rubric can be read without its pair: no "response A", no "the other answer"."""
    plain = " ".join(unicodedata.normalize("NFKC", text).split())
    return not (_LABELLED.search(plain) or _RELATIVE.search(plain))


# ── benchmarks ──────────────────────────────────────────────────────────────────────────────────────────────────────


def find_contaminated(
    pairs: Iterable[PreferencePair], benchmarks: Iterable[tuple[str, Sequence[PreferencePair]]]
) -> list[dict[str, str]]:
    """Return each `pair` that shares a run of words with a benchmark, and the first `benchmark` and `item` of these."""
    first: dict[int, tuple[str, str]] = {}  # by hash: the runs of a whole benchmark would take gigabytes
    for name, items in benchmarks:
        for item in items:
            for run in _runs_of_pair(item):
                first.setdefault(run, (name, item.id))
    hits = ((pair, next((first[run] for run in _runs_of_pair(pair) if run in first), None)) for pair in pairs)
    return [{"pair": pair.id, "benchmark": hit[0], "item": hit[1]} for pair, hit in hits if hit is not None]


def _runs_of_pair(pair: PreferencePair) -> Iterator[int]:
    for text in (prompt_text(pair.prompt), pair.chosen, pair.rejected):
        yield from map(hash, runs_of(text))


def contamination(
    pairs: Sequence[PreferencePair],
    ties: Sequence[PreferencePair],
    benchmarks: Sequence[tuple[str, Sequence[PreferencePair]]],
) -> tuple[dict[str, Any], list[PreferencePair]]:
    """Count the pairs that overlap with each benchmark, with and without ties; return the counts and the other pairs.

    `by` has a row for each benchmark; for several, the row `any` is that of all of them together.
    """
    overlaps = [
        (name, len(items), {hit["pair"] for hit in find_contaminated((*pairs, *ties), [(name, items)])})
        for name, items in benchmarks
    ]
    overlapping = {pair_id for *_, ids in overlaps for pair_id in ids}
    if len(overlaps) > 1:
        overlaps.append(("any", sum(items for _, items, _ in overlaps), overlapping))
    tied = {pair.id for pair in ties}
    by = [
        {
            "benchmark": name,
            "items": items,
            "before_dropping_ties": _removed(len(ids), len(pairs) + len(ties)),
            "after_dropping_ties": _removed(len(ids - tied), len(pairs)),
        }
        for name, items, ids in overlaps
    ]
    clean = [pair for pair in pairs if pair.id not in overlapping]
    return {"run_words": RUN_WORDS, "pairs": len(pairs), "ties": len(ties), "clean": len(clean), "by": by}, clean


def _removed(part: int, whole: int) -> dict[str, float | None]:
    return {"removed": part, "share": round(part / whole, 6) if whole else None}


def contamination_parts(counts: Mapping[str, Any], place: str = "") -> Parts:
    """Yield a table of the counts, and a line about the clean pairs, which were written to `place`."""
    pairs, ties, clean = counts["pairs"], counts["ties"], counts["clean"]
    rows = []
    for row in counts["by"]:
        cells = [row["benchmark"], f"{row['items']:,}"]
        for side, whole in (("before", pairs + ties), ("after", pairs)):
            count = row[f"{side}_dropping_ties"]
            cells += [f"{count['removed']:,} of {whole:,}", f"{100 * (count['share'] or 0):.2f} %"]
        rows.append(cells)
    yield Table(("benchmark", "its pairs", "removed, with ties", "share", "removed, without ties", "share"), rows)
    written = f", in {place}" if place else ""
    yield Line(f"{clean:,} pairs are clean; {pairs - clean:,} overlap, {ties:,} ties are dropped{written}")
