"""Reading replies: the JSON of judges and authors, defensively.

An answer counts only where it can be read in one way. Where a nonce was shown it is the JSON object with that nonce;
objects with another are forgeries. One without counts only where it is all that a reply says, fenced or not: beside
prose it may be a quotation. A key that stands twice, and several answers that do not say the same, are
ambiguous: nothing tells which of them a judge meant and which it repeats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from svr_async.core.pair import Side
from svr_async.core.verdict import RubricComparison, Verdict, is_number
from svr_async.engine.request import AmbiguousReplyError, ReplyRejectedError
from svr_async.judges.brackets import FENCE, MAX_LEAD
from svr_async.judges.fence import clean

_PLACEHOLDER = re.compile(r"<[^<>]*>")
_KEY = re.compile(r'"\s*:')
_LOOSE_KEY = re.compile(r"""(?<!\\)["']\s*:""")  # in JSON that is broken; not in a quotation that is escaped
_ANNOUNCED = re.compile(  # what stands ahead of an answer and says nothing of it
    r"(?:(?:sure|okay|ok|certainly|of course)[,.!]?\s*)?(?:(?:here|below|following) (?:is|are)\s*|this is\s*)?"
    r"(?:(?:my|the|our)\s*)?(?:(?:final|requested)\s*)?(?:json|evaluation|assessment|judge?ments?|verdicts?|comparisons?|scores|"
    r"rubrics)?(?:\s*(?:in|as) json(?: format)?|\s*(?:json )?object)?[.:]?",
    re.IGNORECASE,
)
_WISHED = re.compile(r"(?:(?:i )?hope (?:this|that|it) helps|let me know if [^\n\[{.]{0,80})?[.!]?", re.IGNORECASE)
_OBJECT_START = re.compile(r"\{\s*[\"}]")
MAX_STARTS = 512
MAX_WASTED_CHARS = 1_000_000  # most characters read in vain while looking for objects: about 20 ms
MAX_NONCES = 8
MAX_REPAIR_CHARS = 20_000  # the library takes quadratic time on nested brackets: 0.6 s for this many
MAX_REPLY_CHARS = 2_000_000
_VERDICTS = {"pass": Verdict.PASS, "fail": Verdict.FAIL}
_SIDES = {"a": Side.A, "b": Side.B}
_LOCAL = re.compile(r"R[1-9]\d*")
_DIGITS = re.compile(r"[0-9]{1,9}")
_VERDICT_KEYS = {"rubric_comparisons": "better", "rubric_scores": "score"}  # the last key of an entry, by its list
NO_NONCE = "no_nonce"
"""The flag of an answer that was to carry the nonce and does not."""


Placed = tuple[Mapping[str, Any], str]  # a JSON object, and the text that it was read from


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON object found in a reply, with what was unusual about finding it."""

    value: Mapping[str, Any]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadComparisons:
    """Valid rows by local rubric id, the overall preference, and flags."""

    rows: Mapping[str, RubricComparison]
    preferred: Side | None
    flags: tuple[str, ...]


def reasons_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the (local rubric id, reason) pairs of a reply, as written; () where it holds no comparisons.

    For people to look at, and no more: nonces are not checked here, nor whether an entry counts.
    """
    entries = [entry for value, _ in _answers(text, "rubric_comparisons")[-1:] for entry in value["rubric_comparisons"]]
    texts = [(entry.get("rubric_id"), entry.get("reason")) for entry in entries if isinstance(entry, Mapping)]
    return tuple((local, reason) for local, reason in texts if isinstance(local, str) and isinstance(reason, str))


def read_object(text: str, key: str, nonce: str, *, repair: bool = False) -> Found:
    """Return the JSON object that has `key` as a list and the nonce.

    ReplyRejectedError where there is none, AmbiguousReplyError where there are several that differ, or keys twice. With
    `repair`, JSON that is broken but not cut short is mended with a library, and flagged: a list that was cut would be
    short without a sign of it.
    """
    text = text[-MAX_REPLY_CHARS:]
    candidates = _answers(text, key)
    if signed := bool(nonce) and nonce in text:  # what is unsigned was only quoted
        found = _signed(candidates, text, key, nonce)
    else:
        found = _unsigned(text, key, nonce)
    if found:
        _check_one_meaning(found, key)
        _check_nothing_left(text[min(text.find(source) for _, source in found) :], found, key)
        if not signed and text.count(f'"{key}"') > len(found):
            raise AmbiguousReplyError(f'Your answer named "{key}" in more places than one JSON object.')
        unsigned = (NO_NONCE,) if nonce and not signed else ()
        return Found(found[-1][0], ("multiple_verdicts",) * (len(candidates) > 1) + unsigned)
    repaired = _repair(text, key, nonce) if repair and text.rstrip().endswith(("}", "```")) else None
    if repaired is None:
        raise _rejected(candidates, key, nonce)
    begin = text.rfind("{", 0, text.find(nonce)) if signed else text.find("{")
    _check_nothing_left(text[begin:], [(repaired, text)], key)
    return Found(repaired, ("repaired",))


def _rejected(candidates: Sequence[Placed], key: str, nonce: str) -> ReplyRejectedError:
    """Return the error that says what a reply lacked, or what it had beside the only object that it may be read by."""
    if candidates and not nonce:
        return AmbiguousReplyError(
            f'Your answer held more than a JSON object with "{key}", which may be a quotation. Give the object alone.'
        )
    return ReplyRejectedError(
        f'Your answer held no JSON object with {"the nonce and " if nonce else ""}a "{key}" list.'
    )


def _answers(text: str, key: str) -> list[Placed]:
    return [placed for placed in _objects(text) if isinstance(placed[0].get(key), list)]


def _signed(candidates: Sequence[Placed], text: str, key: str, nonce: str) -> list[Placed]:
    """Return the objects with the nonce; where it stands elsewhere too, also those that broken ones hid."""
    signed = [placed for placed in candidates if placed[0].get("nonce") == nonce]
    return signed if len(signed) == text.count(nonce) else [*_signed_near(text, key, nonce), *signed]


def _unsigned(text: str, key: str, nonce: str) -> list[Placed]:
    """Return the object of a judge that forgot the nonce, or was shown none, where it stands as an answer does."""
    block = _alone(text)
    value = _loads(block)
    right = isinstance(value, dict) and isinstance(value.get(key), list) and not (nonce and "nonce" in value)
    return [(value, block)] if right else []


def _check_one_meaning(found: Sequence[Placed], key: str) -> None:
    """Raise AmbiguousReplyError where answers do not say the same, or one of them has a key twice."""
    if any(_has_key_twice(value, source, key) for value, source in found):
        raise AmbiguousReplyError("Your answer had a key twice in one JSON object. Give each key once.")
    if len(found) > 1:
        first, *others = (_told(value, key) for value, _ in found)
        if any(other != first for other in others):
            raise AmbiguousReplyError(f'Your answer held several JSON objects with "{key}" that differ. Give one only.')


def _check_nothing_left(text: str, found: Sequence[Placed], key: str) -> None:
    """Raise AmbiguousReplyError where, from the first answer on, verdicts stand elsewhere than in entries of answers.

    A quotation without its escapes may have ended an entry, the list or the object, so that these are the judge's own.
    """
    name = _VERDICT_KEYS.get(key)
    if name is None:
        return
    rows = 0
    for source, value in {source: value for value, source in found}.items():
        entries = sum(isinstance(entry, Mapping) and name in entry for entry in value[key])
        rows += entries * max(1, text.count(source))
    if text.count(f'"{name}"') > rows and len(re.findall(rf'"{name}"\s*:', text)) > rows:
        raise AmbiguousReplyError(f'Your answer had "{name}" outside of the one list "{key}". Give the object alone.')


def _told(value: Mapping[str, Any], key: str) -> list[Any]:
    """Return what an answer says, without the reasons that it gives for it."""
    rows = [{**entry, "reason": None} if isinstance(entry, dict) else entry for entry in value[key]]
    return [rows, {name: one for name, one in value.items() if name != key}]


def _has_key_twice(value: Mapping[str, Any], source: str, key: str) -> bool:
    """Whether an object's text has a key twice at any depth: only where it has more colons than keys is it looked at.

    There are as many keys at least as the object and the entries of its list have; each comes with a colon.
    """
    keys = len(value) + sum([len(entry) for entry in value[key] if type(entry) is dict])
    if source.count(":") == keys or len(_KEY.findall(source)) == keys:
        return False
    try:
        json.loads(source.strip(), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):  # valid JSON otherwise, or nested too deep to tell
        return True
    return False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice")
    return value


def _alone(text: str) -> str:
    """Return what a reply holds beside its fence and words that only announce it ("Here is my evaluation:"), or ""."""
    text = text.strip()
    if text.startswith("{"):
        return text
    fenced = text.count(FENCE) == 2 and text.index(FENCE) != text.rindex(FENCE)
    head, _, rest = text.partition(FENCE if fenced else "{")
    block, _, tail = rest.rpartition(FENCE) if fenced else ("{" + rest, "", "")
    announced = len(head) <= MAX_LEAD and _ANNOUNCED.fullmatch(head.strip()) and _WISHED.fullmatch(tail.strip())
    return block.strip().removeprefix("json").strip() if announced else ""


def _signed_near(text: str, key: str, nonce: str) -> list[Placed]:
    """Return the objects that begin right before a nonce, however many broken ones were quoted ahead of them."""
    end, found = len(text), list[Placed]()
    for _ in range(MAX_NONCES):
        end = text.rfind(nonce, 0, end)
        start = text.rfind("{", 0, end) if end >= 0 else -1
        if start < 0:
            break
        try:
            value, stop = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.get("nonce") == nonce and isinstance(value.get(key), list):
            found.append((value, text[start:stop]))
    return found[::-1]


def _objects(text: str) -> list[Placed]:
    """Return the outermost complete JSON objects in a text, in order."""
    whole = _loads(text)
    if isinstance(whole, dict):
        return [(whole, text)]
    found: list[Placed] = []
    position = wasted = 0
    for _ in range(MAX_STARTS):
        match = _OBJECT_START.search(text, position)
        if match is None or wasted > MAX_WASTED_CHARS:
            break
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            position = match.start() + 1
            wasted += getattr(error, "pos", position + 1000) - match.start()
            continue
        if isinstance(value, dict):
            found.append((value, text[match.start() : position]))
    return found


def _loads(text: str) -> Any:
    try:
        return orjson.loads(text.strip().encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _repair(text: str, key: str, nonce: str) -> Mapping[str, Any] | None:
    """Repair the one object that has the nonce; where nothing is signed, the one that stands alone.

    None where that drops a key: what was a quotation without its escapes would be read as the answer.
    """
    signed = bool(nonce) and nonce in text
    text, mark = text if signed else _alone(text), nonce if signed else key
    start = text.rfind("{", 0, max(text.find(mark), 0))
    if start < 0 or text.count(mark) > 1 or len(text) - start > MAX_REPAIR_CHARS or (start and not signed):
        return None
    from json_repair import repair_json

    try:
        value = repair_json(text[start:], return_objects=True, skip_json_loads=True)
        dropped = len(_LOOSE_KEY.findall(text, start)) > _n_keys(value)
    except (ValueError, RecursionError, TypeError, IndexError):
        return None
    if dropped or not isinstance(value, dict) or not isinstance(value.get(key), list):
        return None
    return value if not nonce or value.get("nonce", nonce) == nonce else None


def _n_keys(value: Any) -> int:
    """Return how many keys a JSON value has at all depths."""
    if isinstance(value, dict):
        return len(value) + sum(map(_n_keys, value.values()))
    return sum(map(_n_keys, value)) if isinstance(value, list) else 0


def read_comparisons(
    text: str, nonce: str, ids: Sequence[str], *, overall: bool, repair: bool = False
) -> ReadComparisons:
    """Read `rubric_comparisons`: rows with a known id and exact types, matched by id; duplicates must be the same.

    ReplyRejectedError when no row is valid, or when `preferred_candidate` is asked for and missing.
    """
    found = read_object(text, "rubric_comparisons", nonce, repair=repair)
    named = found.value.get("preferred_candidate")
    preferred = _SIDES.get(named.casefold()) if isinstance(named, str) else None
    if overall and preferred is None:
        raise ReplyRejectedError('Your answer lacked "preferred_candidate", which is "A" or "B".')
    rows = _matched_rows(found.value["rubric_comparisons"], set(ids))
    if not rows and not (overall and not ids):
        raise ReplyRejectedError(
            "No entry of your answer had a known rubric_id with verdicts pass/fail and better A/B."
        )
    flags = found.flags + (("inconsistent",) if any(row.inconsistent for row in rows.values()) else ())
    return ReadComparisons(rows, preferred, flags)


def _matched_rows(entries: Sequence[Any], known: set[str]) -> dict[str, RubricComparison]:
    rows: dict[str, RubricComparison] = {}
    read = [row for row in map(_row, entries) if row is not None]
    _check_strangers([row.rubric_id for row in read], known)
    disputed = {_local_id(entry) for entry in entries if _row(entry) is None}
    for row in read:
        if row.rubric_id not in known:
            continue
        if rows.setdefault(row.rubric_id, row) != row:
            raise _twice(row.rubric_id)
    return {local: row for local, row in rows.items() if local not in disputed}


def _check_strangers(given: Sequence[str], known: set[str]) -> None:
    """Raise AmbiguousReplyError where a verdict under an unknown id may be the judge's own on a rubric asked for.

    Then another under the known id may be a quotation. No more such verdicts than rubrics without one are garbled ids.
    """
    strangers, missing = set(given) - known, len(known.difference(given))
    garbled = [one for one in strangers if _LOCAL.fullmatch(one) is None]
    twice = [one for one in garbled if not one or ((found := _DIGITS.search(one)) and f"R{int(found[0])}" in given)]
    if known and (twice or len(garbled) > missing or (strangers and not missing)):
        named = min(twice or garbled or strangers)
        raise AmbiguousReplyError(
            f'Your answer had an entry for "{named[:40]}", which is none of the rubrics asked for.'
        )


def _twice(local: str) -> ReplyRejectedError:
    """Return the error for two different entries on one rubric: one of them, or of the others, may be a quotation."""
    return ReplyRejectedError(f'Your answer had two entries for "{local}". Give one for each rubric.')


def _row(entry: Any) -> RubricComparison | None:
    if not isinstance(entry, Mapping):
        return None
    a, b = _verdict(entry.get("candidate_a_verdict")), _verdict(entry.get("candidate_b_verdict"))
    better = entry.get("better")
    side = _SIDES.get(better.casefold()) if isinstance(better, str) else None
    if a is None or b is None or side is None:
        return None
    reason = entry.get("reason")
    return RubricComparison(_local_id(entry), a, b, side, reason if isinstance(reason, str) else "")


def _local_id(entry: Any) -> str:
    """Return the id that an entry names, "" for none."""
    local = entry.get("rubric_id") if isinstance(entry, Mapping) else None
    return local.strip().upper() if isinstance(local, str) else ""


def _verdict(value: Any) -> Verdict | None:
    return _VERDICTS.get(value.casefold()) if isinstance(value, str) else None


def read_rubrics(
    text: str, nonce: str, *, most: int, longest: int, repair: bool = False
) -> tuple[tuple[str, ...], str]:
    """Read `rubrics` (texts, or objects with one) and `rubric_note`; ReplyRejectedError where there are none."""
    found = read_object(text, "rubrics", nonce, repair=repair)
    texts = [_rubric_text(entry) for entry in found.value["rubrics"]]
    kept = tuple(dict.fromkeys(text for text in texts if text and len(text) <= longest))[:most]
    if not kept:
        raise ReplyRejectedError('Your answer held no rubric: "rubrics" is a list of texts.')
    note = found.value.get("rubric_note")
    return kept, "" if is_placeholder(note) or not isinstance(note, str) else clean(note)


def _rubric_text(entry: Any) -> str:
    if isinstance(entry, Mapping):
        entry = entry.get("rubric", entry.get("text"))
    return one_line(entry)


def one_line(entry: Any) -> str:
    """Return a text that a judge wrote as one line; "" for none, and for a place of the form that was left as it is."""
    return "" if is_placeholder(entry) or not isinstance(entry, str) else " ".join(clean(entry).split())


def is_placeholder(value: Any) -> bool:
    """Whether a value is `<…>`, as the prompts' forms have what is to be filled in: small models copy them."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value.strip()) is not None


def read_scores(text: str, nonce: str, ids: Sequence[str], *, repair: bool = False) -> dict[str, float]:
    """Read `rubric_scores` as local id → score in [0, 1]; an entry that stands twice must be the same.

    ReplyRejectedError when no entry is valid.
    """
    found = read_object(text, "rubric_scores", nonce, repair=repair)
    known, given = set(ids), dict[str, Mapping[str, Any]]()
    for entry in found.value["rubric_scores"]:
        score = entry.get("score") if isinstance(entry, Mapping) else None
        if is_number(score) and 0 <= score <= 1 and given.setdefault(local := _local_id(entry), entry) != entry:
            raise _twice(local)
    _check_strangers(list(given), known)
    scores = {local: float(entry["score"]) for local, entry in given.items() if local in known}
    if not scores:
        raise ReplyRejectedError("No entry of your answer had a known rubric_id with a score from 0 to 1.")
    return scores
