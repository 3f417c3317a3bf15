"""Settings that an endpoint refuses: read from its words, left out from then on, kept for the next run.

A request is known in the cache by what is sent. So a reply that came without a refused setting is found again under the
same key when the profile leaves the setting out, and a run that asks for the setting as before finds it too: it looks
for what it asks for, then for what it would send.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.request import SYSTEM, Request, without_system
from svr_async.errors import StorageError
from svr_async.vocabulary.atomic import write_atomic

FILE = "refused.json"
MOST_BYTES = 2**20
LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
INSTEAD = LIMITS | {SYSTEM: "user"}
PERMANENT = {
    "max_tokens": 'max_tokens_field = "max_completion_tokens"',
    "max_completion_tokens": 'max_tokens_field = "max_tokens"',
    "response_format": 'structured = "none"',
    "reasoning_effort": 'effort_style = "none"',
    "reasoning": 'effort_style = "none"',
    "output_config": 'effort_style = "none" and structured = "none"',
    "stop_sequences": 'stop = "unset"',
    SYSTEM: 'system_role = "user"',
    **{name: f'{name} = "unset"' for name in ("temperature", "top_p", "n", "seed", "stop")},
}
"""What of a body can be left out, or said otherwise, with the setting of a profile that does so for good."""
STATUSES = frozenset({400, 404, 422, 500})  # 500 where its words say that the request is at fault (`classify.py`)
OPENAI_CODES = frozenset({"unsupported_parameter", "unsupported_value"})
CODES = OPENAI_CODES | {"unknown_parameter", "extra_forbidden"}
REFUSED = re.compile(
    r"unsupported|not (?:be |currently )?support|n't support|no longer support|unrecogni[sz]ed|unknown|unexpected"
    r"|extra (?:inputs|fields)|not (?:permitted|allowed|available|recogni[sz]ed|valid)|unavailable|deprecated"
    r"|input should be ['\"]|invalid schema|cannot both|cannot find field|only the default|incompatible"
    r"|does not accept",
    re.IGNORECASE,
)
NO_SYSTEM = re.compile(
    r"system (?:role|message|prompt|instruction)s?\b.{0,40}(?:not |n't |un)(?:support|allow|enabled)"
    r"|only user and assistant roles|conversation roles must alternate",
    re.IGNORECASE | re.DOTALL,
)
"""What templates of models say that know no system message: Gemma's, Mistral's, and endpoints that serve them."""
WORDS = frozenset({"n", "seed", "stop", "reasoning"})
BOTH = re.compile(r"cannot both|not both|only one of", re.IGNORECASE)
TOO_LARGE = re.compile(r"too large|at most|maximum|exceed|less than or equal", re.IGNORECASE)
DECODING = ("temperature", "top_p")
AT_REST = re.compile(r"(?:^|/)gpt-5\.\d+(?:-(?:mini|nano))?(?:-\d{4}-\d\d-\d\d)?$")
"""Models that refuse max_tokens and yet take a temperature, as long as no effort is asked for."""


@dataclass(frozen=True, slots=True)
class Cure:
    """A field of the body that an endpoint does not take: it is sent as `instead`, or not at all.

    The field `system` is the system's message, which then opens the user's.
    """

    field: str
    instead: str = ""

    def apply(self, request: Request) -> Request:
        """Return the request without the field; the same object where it has none."""
        if self.field == SYSTEM:
            messages = without_system(request.messages)
            return request if messages is request.messages else replace(request, messages=messages)
        if self.instead:
            same = request.max_tokens_field != self.field
            return request if same else replace(request, max_tokens_field=self.instead)
        kept = tuple(param for param in request.params if param[0] != self.field)
        return request if len(kept) == len(request.params) else replace(request, params=kept)

    def __str__(self) -> str:
        if self.field == SYSTEM:
            return "the system's message is sent as part of the user's"
        return f"{self.instead} is sent for {self.field}" if self.instead else f"{self.field} is not sent"


def apply_all(cures: Iterable[Cure], request: Request) -> Request:
    """Return the request as it is sent to an endpoint with these cures; the same object where none applies."""
    for cure in cures:
        request = cure.apply(request)
    return request


def find_cures(request: Request, status: int, error: Mapping[str, Any]) -> tuple[Cure, ...]:
    """Return what is to be changed in a request that was refused for one of its settings; empty for other refusals.

    `error` is what the wire read: {message, code, param}.
    """
    message, code = str(error.get("message") or ""), str(error.get("code") or error.get("type") or "")
    if status not in STATUSES:
        return ()
    if NO_SYSTEM.search(message):
        cure = Cure(SYSTEM, INSTEAD[SYSTEM])
        return () if cure.apply(request) is request else (cure,)
    if not (code in CODES or REFUSED.search(message)):
        return ()
    field = _field_named(request, message, str(error.get("param") or ""))
    if field == request.max_tokens_field and TOO_LARGE.search(message) and LIMITS[field] not in message:
        return ()
    fields = _refused_with(request, field, openai=code in OPENAI_CODES)
    cures = [Cure(name, LIMITS.get(name, "")) for name in fields]
    return tuple(cure for cure in cures if cure.apply(request).body_bytes != request.body_bytes)


def _refused_with(request: Request, field: str, *, openai: bool) -> tuple[str, ...]:
    """Return the field that a refusal names, and after it those that a model which refuses it refuses as well.

    Endpoints name one field at a time. What refuses max_tokens, or in OpenAI's form a temperature, is a model that
    reasons, and takes neither: all are left out at once, so that both cost one call.
    """
    if not field:
        return ()
    if field == request.max_tokens_field:
        return (field, *(DECODING if field == "max_tokens" and _reasons(request) else ()))
    if field in DECODING and openai and _reasons(request):
        return (field, *(name for name in (*DECODING, "max_tokens") if name != field))
    return DECODING if field == "temperature" else (field,)


def _field_named(request: Request, message: str, param: str) -> str:
    """Return the field of the request that a refusal is about, "" where it names none that can be left out."""
    sent = [request.max_tokens_field, *(name for name, _ in request.params if name in PERMANENT)]
    root = re.split(r"[.\[]", param)[0]
    if root in sent:
        return root
    if "top_p" in sent and BOTH.search(message):
        return "top_p"
    places = {name: found.start() for name in sent if (found := re.search(_mention(name), message))}
    return min(places, key=lambda name: places[name], default="")


def _mention(name: str) -> str:
    """Match a field's name in a text; one that is a word of its own only in quotes or before a colon."""
    return rf"['\"`]{name}['\"`]|(?:^|[;,] ){name}: " if name in WORDS else rf"\b{name}\b"


def _reasons(request: Request) -> bool:
    """Whether a model that refuses what models that reason refuse does reason: it is not told to be at rest."""
    efforts = [value for name, value in request.params if name in ("reasoning_effort", "reasoning")]
    return any(effort != "none" for effort in efforts) if efforts else not AT_REST.search(request.model)


class Healer:
    """What endpoints have refused, by endpoint and model, from the file of earlier runs on.

    The file is a convenience: where it cannot be read or written, one more call is refused in the next run.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._earlier: dict[tuple[str, str], tuple[Cure, ...]] = {}
        self._known: dict[tuple[str, str], tuple[Cure, ...]] = {}
        self.reload()

    def reload(self) -> None:
        """Take in what other processes have learnt since."""
        for place, cures in _load(self._path).items():
            self._known[place] = tuple(dict.fromkeys((*self._known.get(place, ()), *cures)))
            self._earlier.setdefault(place, cures)

    def healed(self, request: Request) -> Request:
        """Return the request as it is sent; the same object where nothing of it is refused."""
        if not self._known:
            return request
        return apply_all(self._known.get((request.endpoint, request.model), ()), request)

    def cures(self, endpoint: str, model: str) -> tuple[Cure, ...]:
        """Return what is known of a model at an endpoint."""
        return self._known.get((endpoint, model), ())

    def recall(self, request: Request) -> str:
        """Return, once for each model, the line that says what an earlier run has learnt; "" else."""
        cures = self._earlier.pop((request.endpoint, request.model), ())
        if not cures:
            return ""
        return f"{request.model}: {_listed(cures)}, as an earlier run found; {permanent(cures)}"

    def learn(self, request: Request, cures: tuple[Cure, ...]) -> str:
        """Note what is refused and return the line that says so; "" where it was known already."""
        place = (request.endpoint, request.model)
        known = self._known.get(place, ())
        new = tuple(cure for cure in cures if cure not in known)
        if not new:
            return ""
        self._known[place] = known + new
        if self._path is not None:
            rows = _load(self._path) | {place: self._known[place]}
            with contextlib.suppress(StorageError):
                write_atomic(self._path, _dump(rows), hint="the next run asks once more")
        alike = " as models that reason do" if len(new) > 1 else ""
        return f"{request.model} refused {cures[0].field}{alike}: {_listed(new)} from now on; {permanent(new)}"


def _listed(cures: tuple[Cure, ...]) -> str:
    return ", ".join(map(str, cures))


def permanent(cures: Iterable[Cure]) -> str:
    """Return the settings of a profile that say so for good."""
    return f"{', '.join(dict.fromkeys(PERMANENT[cure.field] for cure in cures))} in judges.toml says so for good"


def _dump(rows: Mapping[tuple[str, str], tuple[Cure, ...]]) -> bytes:
    listed = [
        {"endpoint": place[0], "model": place[1], "cures": [asdict(cure) for cure in cures]}
        for place, cures in rows.items()
    ]
    return orjson.dumps(listed, option=orjson.OPT_INDENT_2)


def add_cures(path: Path, data: bytes) -> None:
    """Add to a file of cures what another one holds, as where it was learnt on another machine."""
    known = _load(path)
    both = known | {place: tuple(dict.fromkeys((*known.get(place, ()), *new))) for place, new in _parse(data).items()}
    if both != known:
        with contextlib.suppress(StorageError):
            write_atomic(path, _dump(both), hint="the next run asks once more")


def _load(path: Path | None) -> dict[tuple[str, str], tuple[Cure, ...]]:
    """Read the file; what is no cure there is left out."""
    try:
        return {} if path is None else _parse(_head(path))
    except OSError:
        return {}


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES)


def _parse(data: bytes) -> dict[tuple[str, str], tuple[Cure, ...]]:
    try:
        rows = orjson.loads(data)
        return {
            (str(row["endpoint"]), str(row["model"])): tuple(
                Cure(one["field"], one["instead"])
                for one in row["cures"]
                if one["field"] in PERMANENT and one["instead"] in {"", INSTEAD.get(one["field"])}
            )
            for row in rows
        }
    except (ValueError, KeyError, TypeError):
        return {}
