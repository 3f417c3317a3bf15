"""The recorded judge: replies from a file, read by the same code as a live judge's; or scores (`recorded_scores.py`).

The file is JSON Lines. Each line is one reply:

    {"pair_id": "7", "order": "ab", "role": "direct", "reply": "… [[A]]"}

`role` is `direct`, `compare` or `self_rubrics`; `order` (`ab`: the data set's order was shown, `ba`: swapped) is left
out for `self_rubrics`. `reply` is the judge's text as it came: `[[A]]` and `[[B]]`, or the JSON of the role, speak of
the responses as shown. An empty `rubrics` list is a judge that wrote none and still judged. `rubric_id`s are R1…Rk in
the order of the item's rubrics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import read_plain
from svr_async.core.integrity import Integrity, Marks
from svr_async.core.pair import Order, Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.reply import without_thoughts
from svr_async.engine.request import ReplyRejectedError
from svr_async.errors import ConfigError
from svr_async.judges.protocol import Answer, Comparisons, Preference, WrittenRubrics
from svr_async.judges.questions import read_comparisons, read_written
from svr_async.judges.reader import read_direct
from svr_async.judges.recorded_scores import RecordedScores, holds_scores, read_scores_file

ROLES = ("direct", "compare", "self_rubrics")
Key = tuple[str, str, str]
_MOST_BYTES = 2**32  # recorded replies are whole texts


@dataclass(frozen=True, slots=True)
class RecordedJudge:
    """Replays replies by (role, pair id, order). Pairs that the file does not hold are unscored, and counted."""

    path: Path
    replies: Mapping[Key, str]
    prompts: Mapping[str, str]
    marks: Marks = frozenset({Integrity.RECORDED})

    @property
    def name(self) -> str:
        """`recorded:` and the file's name."""
        return f"recorded:{self.path.name}"

    @property
    def label(self) -> str:
        """How its results are labelled."""
        return f"recorded replies ({self.path.name})"

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Replay a direct verdict."""
        reply = self.replies.get(("direct", shown.pair_id, shown.order.value))
        if reply is None:
            return _missing("direct", shown.pair_id, shown.order)
        try:
            return Answer(value=read_direct(reply, (shown.response_a, shown.response_b)))
        except ReplyRejectedError as error:
            return Answer(value=None, outcome=Outcome.PARSE_ERROR, detail=str(error))

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Replay rubrics that were written for a prompt."""
        pair_id = self.prompts.get(_prompt_key(prompt), "")
        reply = self.replies.get(("self_rubrics", pair_id, ""))
        if reply is None:
            return _missing("self_rubrics", pair_id or "this prompt", None)
        if wrote_none(reply):
            return Answer(value=WrittenRubrics(rubrics=()))
        try:
            texts, note = read_written(reply)
        except ReplyRejectedError as error:
            return Answer(value=None, outcome=Outcome.PARSE_ERROR, detail=str(error))
        return Answer(value=WrittenRubrics(rubrics=tuple(Rubric(text=text) for text in texts), note=note))

    async def compare(
        self,
        shown: Presentation,
        rubrics: Sequence[Rubric],
        *,
        overall: bool,
        note: str = "",  # noqa: ARG002
    ) -> Answer[Comparisons]:
        """Replay verdicts per rubric and the overall preference."""
        reply = self.replies.get(("compare", shown.pair_id, shown.order.value))
        if reply is None:
            return _missing("compare", shown.pair_id, shown.order)
        try:
            quoted = shown.response_a, shown.response_b
            return Answer(value=read_comparisons(reply, rubrics, overall=overall, quoted=quoted))
        except ReplyRejectedError as error:
            return Answer(value=None, outcome=Outcome.PARSE_ERROR, detail=str(error))

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:  # noqa: ARG002
        """Recordings hold no pointwise scores."""
        return Answer(value=None, outcome=Outcome.API_ERROR, detail="recordings hold no pointwise scores")


def load_recorded(path: Path, prompts: Mapping[str, Prompt]) -> RecordedJudge | RecordedScores:
    """Read a file of replies, or of scores; `prompts` maps pair ids to prompts.

    ConfigError names the line that is wrong.
    """
    replies: dict[Key, str] = {}
    try:
        data = read_plain(path, _MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"cannot read the recorded replies {path}: {error.strerror}") from error
    if holds_scores(path, data):
        return read_scores_file(path, data)
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            key, reply = _read_line(line, f"{path} line {number}")
            replies[key] = reply
    if not replies:
        raise ConfigError(f"{path} holds no replies", hint="one JSON object a line: pair_id, order, role, reply")
    by_prompt = {_prompt_key(prompt): pair_id for pair_id, prompt in reversed(list(prompts.items()))}
    return RecordedJudge(path, replies, by_prompt)


def wrote_none(reply: str) -> bool:
    """Whether a recorded reply is an explicitly empty list of rubrics."""
    try:
        value = orjson.loads(reply)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and value.get("rubrics") == [] and reply.count('"rubrics"') == 1


def _read_line(line: bytes, where: str) -> tuple[Key, str]:
    try:
        value: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error
    if not isinstance(value, dict) or not all(isinstance(value.get(k), str) for k in ("pair_id", "role", "reply")):
        raise ConfigError(f"{where} lacks pair_id, role or reply as texts")
    role, order = value["role"], value.get("order", "")
    if role not in ROLES:
        raise ConfigError(f"{where} has the unknown role {role!r}", hint=f"known are {', '.join(ROLES)}")
    if role == "self_rubrics":
        order = ""
    elif order not in ("ab", "ba"):
        raise ConfigError(f"{where} has the order {order!r}", hint="ab: as in the data set, ba: swapped")
    return (role, value["pair_id"], order), without_thoughts(value["reply"])


def _prompt_key(prompt: Prompt) -> str:
    return hashlib.blake2b(prompt_text(prompt).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _missing(role: str, pair_id: str, order: Order | None) -> Answer[Any]:
    shown = f" in order {order.value}" if order else ""
    return Answer(value=None, outcome=Outcome.API_ERROR, detail=f"no recorded {role} reply for {pair_id}{shown}")
