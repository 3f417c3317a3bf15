"""Reads replies: verdicts in every form that has one clear meaning, and lists in JSON.

`docs/prompts.md` has the table of accepted forms. `quoted` are the candidates' texts: a mark or JSON value that stands
literally in one is a quotation and is skipped. A reply without one clear meaning raises ReplyRejectedError.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import orjson

from svr_async.core.pair import Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Verdict
from svr_async.engine.request import ReplyRejectedError
from svr_async.judges.protocol import Preference

T = TypeVar("T")
Quoted = Sequence[str]
Held = tuple[list[Any], Mapping[str, Any]]  # a list of a reply, and the JSON object that holds it; {} for a bare list
MAX_STARTS, MAX_REPAIR_CHARS = 2_000, 20_000  # places where JSON may start; json-repair takes quadratic time
ASKED_AGAIN = ("rubric_comparisons", "rubric_scores")  # missing rows are asked for; other lists have to be whole
NEAR = 40  # characters between two marks that contradict each other
CONTEXT = 16  # characters before a mark that are compared with the candidates
TRIM = " \t\r\n.,;:!*_$`\"'()[]{}<>"

_PASS = ("pass", "passes", "passed", "true", "yes", "1", "met", "satisfied", "satisfies")
_FAIL = ("fail", "fails", "failed", "false", "no", "0", "unmet", "not met", "not satisfied", "unsatisfied")
_VERDICTS = dict.fromkeys(_PASS, Verdict.PASS) | dict.fromkeys(_FAIL, Verdict.FAIL)
_SIDES = dict.fromkeys(("a", "1", "first"), Side.A) | dict.fromkeys(("b", "2", "second"), Side.B)
_MARGINS = {Side.A: 1.0, Side.B: -1.0, None: 0.0}
_ENDS = {"[[A]]": 1.0, "[[B]]": -1.0}
_EVEN = r"tie|equal(?:ly)?|both|neither|draw|none|null|same|no (?:clear )?preference"
_THING = r"(?:candidate|response|output|answer|assistant|option|model|text)"
_WINNERS = rf"[abc]|first|second|{_EVEN}"
_TIED = re.compile(rf"(?:it(?:'s| is) )?(?:an? )?(?:{_EVEN}|c)\b.*", re.IGNORECASE | re.DOTALL)
_NAMED = re.compile(
    rf"(?:the )?(?:{_THING}[ _]*)?\W{{0,4}}(a|b|1|2|first|second)\W{{0,4}}(?:{_THING}|one)?"
    r"(?: ?[>(;:–-].*| ?\b(?:is|was|wins|does)\b.*)?",
    re.IGNORECASE | re.DOTALL,
)
_LABEL = rf"(?:(?:verdict|winner|decision|choice|preference|preferred|better|best|score|rating)(?:[ _]{_THING}| one)?"
_LABEL += r"|(?:final )?answer)[\"'*_ )]*(?:\bis\b:?|[:=]|->)[\s\"'*_(\[{]*"
_BETTER = re.compile(
    rf"(?:\b(?i:{_THING}) ?[(\"'*\[]*([ABab])\b|(?<![\w'])\(?([AB])|\b[Tt]he (first|second)(?: (?i:{_THING}))?)"
    r"[)\"'*\]]*(?: \w+ly)?,? (?:wins|(?:is|was|seems) (?:\w+ly |much |far |the |a )*"
    r"(?:better|best|winner|superior|preferred|stronger))\b"
)
_ID = re.compile(r"(?is)\W*(?:rubric|criterion|item)?[\s_#:\[(]*r?[\s_#]*0*(\d{1,6})(?:[\])\"'.:].*)?")
_START = re.compile(r"\{\s*\"|\[\s*[{\"]")
_DECODER = json.JSONDecoder(strict=False)
_ROW_KEYS = dict.fromkeys(("contrastive_rubrics", "rephrased_rubrics"), "rubric")
_ROW_KEYS |= {"rubric_comparisons": "better", "rubric_scores": "score"}


@cache
def _patterns(words: str) -> tuple[re.Pattern[str], ...]:
    """Return the forms of a mark, the clearest first: double brackets, a last line, behind a label, single brackets."""
    named = rf"(?:the )?(?:{_THING}\W{{0,3}})?[*_\"'(\[]*"
    lead = r"(?:- )?[\s>#*_$\"'`{\[(]*(?:(?:final|my|the|overall|it is|it's|an?) )*"
    forms = (
        rf"\[\[\s*{named}({words})\s*\]\]",
        rf"(?:^|\n){lead}(?:{_LABEL})?(?:\\boxed\{{)?{named}({words})[\s*_$\"')\]}}`.!]*$",
        rf"\b{_LABEL}{named}({words})\b(?=\W*$|[\"'*_).\],;:\n]|\s+(?:is|wins|because|since|over|due|as|for|[(–-]))",
        rf"(?:\[|\*\*)({words})(?:\]|\*\*)",
    )
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)


def read_direct(text: str, quoted: Quoted = ()) -> Preference:
    """Read a direct verdict: margin 1 for A, −1 for B, 0 for a tie, with the reason that the judge wrote."""
    end = text[-5:]
    margin = _ENDS.get(end)
    if margin is not None and text.find("[[") == len(text) - 5 and not _stands_in(end, quoted):
        return Preference(margin=margin, reason=text[:-5].strip())
    text = text.strip()
    mark = _last_mark(text, _WINNERS, quoted, "[[A]] or [[B]]", _BETTER)
    reason = text[: mark.start()].strip() or text[mark.end() :].strip()
    return Preference(margin=_MARGINS[read_better(_word(mark))], reason=reason)


def read_mark(text: str, words: str, say: Callable[[str], T], wanted: str, quoted: Quoted = ()) -> T:
    """Return what the last mark of a reply says; `words` is the expression of its word."""
    return say(_word(_last_mark(text.strip(), words, quoted, wanted)))


def _last_mark(text: str, words: str, quoted: Quoted, wanted: str, *more: re.Pattern[str]) -> re.Match[str]:
    """Return the last mark of the clearest form; ReplyRejectedError if it is missing, or two contradict."""
    *strong, weak = _patterns(words)
    for pattern in (*strong, *more, weak):
        if own := [mark for mark in pattern.finditer(text) if not _is_skipped(mark, text, quoted)]:
            last = own[-1]
            others = [one for one in own if _word(one).casefold() != _word(last).casefold()]
            doubtful = pattern is weak or _stands_in(last[0].strip(), quoted)
            if others and (doubtful or last.start() - others[-1].end() < NEAR):
                break
            return last
    raise ReplyRejectedError(f"Your answer did not end with one verdict: {wanted}.")


def _word(mark: re.Match[str]) -> str:
    return next(group for group in mark.groups() if group)


def _stands_in(text: str, quoted: Quoted) -> bool:
    return any(text in candidate for candidate in quoted)


def _is_skipped(mark: re.Match[str], text: str, quoted: Quoted) -> bool:
    """Return whether a mark is a quotation or an ordinary word; alone on the last line it may be the judge's own."""
    word, alone, start = _word(mark), not text[mark.end() :].strip(TRIM), mark.start() + mark[0].startswith("\n")
    if len(word) == 1 and word.islower() and not alone and text[mark.start(mark.lastindex or 0) - 1].isspace():
        return True
    if not _stands_in(mark[0].strip(), quoted):
        return False
    if not alone or text[:start].rpartition("\n")[2].strip(TRIM):
        return True
    context = text[max(0, start - CONTEXT) : mark.end()]
    return context != text and _stands_in(context, quoted)


def read_list(text: str, key: str, quoted: Quoted = ()) -> Held:
    """Return the last complete list under a key, with the object that holds it; broken JSON is repaired."""
    forged = [candidate for candidate in quoted if key in candidate]
    text = text.strip()
    with contextlib.suppress(ValueError):
        if (whole := _held(orjson.loads(text), key)) is not None and not _stands_in(text, forged):
            return whole
    for candidate in forged:
        text = text.replace(candidate.strip(), " ")
    fakes = [value for candidate in forged for value, _, _ in json_values(candidate)]
    values = [one for one in json_values(text) if one[0] not in fakes and not _stands_in(text[one[1] : one[2]], quoted)]
    found = [(held, begin, end) for value, begin, end in values if (held := _held(value, key)) is not None]
    keyed = [one for one in found if one[0][1]]
    if keyed:
        if len(keyed) > 1 and not text[keyed[-2][2] : keyed[-1][1]].strip(TRIM) and keyed[-2][0] != keyed[-1][0]:
            raise ReplyRejectedError(f'Your answer held two lists "{key}" that differ. Give one.')
        return keyed[-1][0]
    rows = [row for (bare, _), _, _ in found for row in bare if key in ASKED_AGAIN or key not in text]
    held = _repaired(text, key) or ((rows, {}) if rows else None)
    if held is None:
        raise ReplyRejectedError(f'Your answer held no JSON object with a "{key}" list.')
    return held


def _held(value: Any, key: str) -> Held | None:
    """Return the list that a JSON value holds: under the key, as rows by id, as a bare list, or as one row alone."""
    row_key = _ROW_KEYS.get(key, "")
    if isinstance(value, list) and value:
        fits = all(row_key in row if row_key and isinstance(row, dict) else isinstance(row, str) for row in value)
        return (value, {}) if fits else None
    inner = value.get(key, value) if isinstance(value, dict) else None
    if isinstance(inner, list):
        return inner, value
    if not row_key or not isinstance(inner, dict) or not inner:
        return None
    if all(isinstance(row, dict) and row_key in row for row in inner.values()):
        return [{"rubric_id": name, **row} for name, row in inner.items()], value
    return ([value], {}) if row_key in value else None


def json_values(text: str) -> list[tuple[Any, int, int]]:
    """Return the outermost complete JSON values of a text with their places."""
    found, place = list[tuple[Any, int, int]](), 0
    for _ in range(MAX_STARTS):
        if (start := _START.search(text, place)) is None:
            break
        try:
            value, place = _DECODER.raw_decode(text, start.start())
            found.append((value, start.start(), place))
        except (ValueError, RecursionError):
            place = start.start() + 1
    return found


def _repaired(text: str, key: str) -> Held | None:
    """Repair the one broken list of a text; None if it was cut short or a quotation may have ended an entry."""
    row_key, named = _ROW_KEYS.get(key, ""), list(re.finditer(rf"\b{key}[\"']?\s*:", text))
    start = text.rfind("{", 0, named[0].start()) if named else text.find("[")
    source = text[start : max(text.rfind("}"), text.rfind("]")) + 1] if start >= 0 else ""
    is_cut = source.count("[") > source.count("]") and key not in ASKED_AGAIN
    if len(named) > 1 or is_cut or not 0 < len(source) <= MAX_REPAIR_CHARS:
        return None
    from json_repair import repair_json

    try:
        held = _held(repair_json(source, return_objects=True, skip_json_loads=True), key)
    except (ValueError, RecursionError, TypeError, IndexError):
        return None
    if held is None or not row_key:
        return held
    entries = sum(isinstance(row, dict) and row_key in row for row in held[0])
    return held if len(re.findall(rf"(?<!\\)\b{row_key}[\"']?\s*:", source)) == entries else None


def read_verdict(value: Any) -> Verdict | None:
    """Return pass or fail; None for anything else."""
    word = str(value).casefold()
    return _VERDICTS.get(word) or _VERDICTS.get(re.split(r"[,;:(]", word)[0].strip(TRIM))


def read_better(value: Any) -> Side | None:
    """Return the better side, None for no preference; ValueError for anything else."""
    word = "null" if value is None else str(value).strip(TRIM).casefold()
    if (side := _SIDES.get(word)) is not None or _TIED.fullmatch(word):
        return side
    if (found := _NAMED.fullmatch(word)) is None:
        raise ValueError(word)
    return _SIDES[found[1]]


def by_rubric(
    rows: Sequence[Any],
    rubrics: Sequence[Rubric],
    read: Callable[[Mapping[str, Any], Rubric], T | None],
    meaning: Callable[[T], object],
) -> dict[str, T]:
    """Return what rows say, by rubric id: matched by R1…Rk or by the rubric's text, without ids by position.

    Rows that `read` cannot read are left out, and so are two rows on one rubric that differ in meaning.
    """
    entries = [row for row in rows if isinstance(row, dict)]
    names = [str(row.get("rubric_id", row.get("id", row.get("rubric", "")))) for row in entries]
    known = {f"R{place}": place for place in range(1, len(rubrics) + 1)}
    if not known.keys() >= set(names):
        known |= {" ".join(rubric.text.casefold().split()): place for place, rubric in enumerate(rubrics, 1)}
    places = [known.get(name) or _place(name, known) for name in names]
    if len(entries) == len(rubrics) and (0 in places or not set(places) & set(known.values())):
        places = [*range(1, len(rubrics) + 1)]
    found, disputed = dict[int, T](), set[int]()
    for place, row in zip(places, entries, strict=True):
        value = read(row, rubrics[place - 1]) if 0 < place <= len(rubrics) else None
        if value is not None and meaning(found.setdefault(place, value)) != meaning(value):
            disputed.add(place)
    return {rubrics[place - 1].id: found[place] for place in sorted(found.keys() - disputed)}


def _place(name: str, texts: Mapping[str, int]) -> int:
    """Return the number of the rubric that an id names, from 1; −1 for any other id."""
    word = " ".join(name.casefold().split())
    own, found = texts.get(word), _ID.fullmatch(word)
    return own or (int(found[1]) if found else -1)
