"""Manners of answering: the ways in which real models write the same verdict. One entry per manner."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manner:
    """`direct` has the places {reason} and {side}; `rows` writes JSON, with rubrics by their text if `by_text`."""

    direct: str
    rows: Callable[[Json], str]
    by_text: bool = False

    def say(self, content: str | Json, texts: Mapping[str, str]) -> str:
        """Write prose that ends with a mark, or a payload, in this manner; `texts` are by rubric id."""
        if isinstance(content, str):
            reason, _, mark = content.rpartition("\n\n[[")
            return self.direct.format(reason=reason, side=mark[:1], lower=mark[:1].lower())
        if self.by_text:
            content = _changed(content, lambda row: row | {"rubric_id": texts.get(row["rubric_id"], "")})
        return self.rows(content)


def _changed(payload: Json, change: Callable[[Json], Json]) -> Json:
    return {key: [change(row) for row in value] if isinstance(value, list) else value for key, value in payload.items()}


def _rows(change: Callable[[Json], Json]) -> Callable[[Json], str]:
    return lambda payload: json.dumps(_changed(payload, change), ensure_ascii=False)


_json = _rows(dict)


def _around(before: str, after: str = "") -> Callable[[Json], str]:
    return lambda payload: f"{before}{_json(payload)}{after}"


def _swap(pattern: str, instead: str) -> Callable[[Json], str]:
    return lambda payload: re.sub(pattern, instead, _json(payload))


def _verdicts(good: Any, bad: Any) -> Callable[[Json], str]:
    words = {"pass": good, "fail": bad}
    return _rows(lambda row: {key: words.get(value, value) for key, value in row.items()})


def _better(a: Any, b: Any) -> Callable[[Json], str]:
    words = {"A": a, "B": b}
    return _rows(lambda row: row | ({"better": words[row["better"]]} if "better" in row else {}))


def _ids(name: Callable[[int], Any]) -> Callable[[Json], str]:
    return _rows(lambda row: row | {"rubric_id": name(int(row["rubric_id"][1:]))})


def _bare(write: Callable[[list[Json]], str]) -> Callable[[Json], str]:
    """Write the rows without the object around them, unless the object holds more."""

    def bare(payload: Json) -> str:
        value = json.loads(_json(payload))
        return write(next(iter(value.values()))) if len(value) == 1 else json.dumps(value)

    return bare


MANNERS: Mapping[str, Manner] = {
    "plain": Manner("{reason}\n\n[[{side}]]", _json),
    "fenced": Manner("{reason}\n\n```\n[[{side}]]\n```", _around("```json\n", "\n```")),
    "prose": Manner("I compare.\n{reason}\nSo:\n[[{side}]]", _around("Here is my evaluation:\n\n")),
    "prose-around": Manner("[[{side}]]\n\n{reason}", _around("Sure, {as asked}.\n```\n", "\n```\nI hope this helps!")),
    "thinks": Manner("<think>[[B]] or [[A]]?</think>\n{reason}\n[[{side}]]", _around('<think>{"better": "A"}</think>')),
    "thinks-unopened": Manner("Perhaps [[A]].\n</think>\n\n{reason}\n\n[[{side}]]", _around("Hm.\n</think>\n\n")),
    "booleans": Manner('{reason}\n\n{{"winner": "{side}"}}', _verdicts(good=True, bad=False)),
    "yes-no": Manner("{reason}\n\nWinner: {side}", _verdicts("Yes", "No")),
    "upper": Manner("{reason}\n\nFINAL VERDICT: {side}", _verdicts("PASS", "FAIL")),
    "met": Manner("{reason}\n\nWinner: Candidate {side}", _verdicts("Met", "Not met")),
    "satisfied": Manner("{reason}\n\nAnswer: {side}", _verdicts("satisfied", "not satisfied")),
    "ones": Manner("{reason}\n\nThe better response is: {side}", _verdicts(1, 0)),
    "true-words": Manner("{reason}\n\nVerdict: **{side}**", _verdicts("True", "false")),
    "candidates": Manner("{reason}\n\n[[Candidate {side}]]", _better("Candidate A", "Candidate B")),
    "responses": Manner("{reason}\n\nResponse {side}", _better("Response A", "response_b")),
    "sentences": Manner("{reason} Therefore, Response {side} is better.", _better("A is better", "B is better")),
    "places": Manner("{reason}\n\n**Winner: Response {side}**", _better("first", "The second response")),
    "numbers": Manner("{reason}\n\nVerdict: [{side}]", _better(1, "2")),
    "lower": Manner("{reason}\n\n[[{lower}]]", _better("a", "b")),
    "named-ids": Manner("{reason}\n\n**{side}**", _ids(lambda n: f"Rubric {n}")),
    "number-ids": Manner("{reason}\n\n[{side}]", _ids(lambda n: n)),
    "digit-ids": Manner("{reason}\n\n{side}", _ids(str)),
    "lower-ids": Manner("{reason}\n\n{lower}", _ids(lambda n: f"r{n}")),
    "bracket-ids": Manner("{reason}\n\n({side})", _ids(lambda n: f"[R{n}]")),
    "text-ids": Manner("{reason}\n\nMy final answer is: {side}", _json, by_text=True),
    "zero-ids": Manner("{reason}\n\n$\\boxed{{{side}}}$", _ids(lambda n: n - 1)),
    "no-ids": Manner("{reason}\n\n*{side}*", _rows(lambda row: {k: row[k] for k in row if k != "rubric_id"})),
    "extra-keys": Manner("{side}", _rows(lambda row: {"confidence": 0.9, **row, "notes": ["none"]})),
    "pretty": Manner("{reason}\n\n### Final verdict: [[{side}]]", partial(json.dumps, indent=2)),
    "bare-list": Manner("[[{side}]]", _bare(json.dumps)),
    "json-lines": Manner("Winner: Response {side}.\n\n{reason}", _bare(lambda rows: "\n".join(map(json.dumps, rows)))),
    "by-id": Manner(
        "{reason}\n\nPreferred: {side}", _bare(lambda rows: json.dumps({r.pop("rubric_id"): r for r in rows}))
    ),
    "trailing-commas": Manner("{reason}\n\nDecision: {side}", _swap(r"([}\]])", r",\1")),
    "single-quotes": Manner("{reason}\n\n'{side}'", repr),
    "no-commas": Manner("{reason}\n\n[[ {side} ]]", _swap("}, {", "} {")),
    "bare-keys": Manner("{reason}\n\n__{side}__", _swap(r'"(\w+)":', r"\1:")),
    "newlines": Manner("{reason}\r\n\r\n[[{side}]]\r\n", _swap("candidate A", "candidate\nA")),
    "ties": Manner("{reason}\n\n[[C]]", _better("tie", None)),
    "even": Manner("Both are equally good.\n\nVerdict: tie", _better("equal", "both")),
}
"""By name, for `svr sim --manner`. All mean the same as `plain`, except those in EVEN, which have no preference."""
EVEN = ("ties", "even")
