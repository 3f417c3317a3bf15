"""Reading the body of a request: fields of JSON with the one line that says what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.core.pair import Prompt, prompt_text
from svr_async.engine.reply import json_value
from svr_async.server.chat_text import turns_of, without_end
from svr_async.server.group import digest
from svr_async.server.pool import Seat
from svr_async.server.refusal import RefusalError
from svr_async.server.settings import ServerSettings
from svr_async.serving.texts import as_prompt, as_response

Body = Mapping[str, Any]
MOST_DIGITS = 18  # of a number that may come as a text
MOST_KEY_CHARS = 512  # of the name of a group or a member


def parsed(data: bytes) -> Any:
    """Return the JSON of a body; RefusalError (400) for anything else.

    What a model wrote may hold half of a surrogate pair: it is read as replies of endpoints are, and judged.
    """
    try:
        return json_value(data)
    except ValueError as error:
        raise RefusalError(400, f"the body is not JSON: {error}") from None


def an_object(value: Any) -> Body:
    """Return a JSON object; RefusalError (422)."""
    if not isinstance(value, dict):
        raise RefusalError(422, f"the body is {_kind(value)}, not an object")
    return value


def lacking(name: str) -> RefusalError:
    """Return what is said of a field that is not there."""
    return RefusalError(422, f"the body has no {name!r}")


def texts(body: Body, name: str) -> list[str]:
    """Return a list of texts, one of a lone text; RefusalError (422)."""
    value = body.get(name)
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise lacking(name) if value is None else RefusalError(422, f"{name!r} is not a list of texts")
    return found


def a_list(body: Body, name: str) -> list[Any]:
    """Return a list with something in it; RefusalError (422)."""
    value = body.get(name)
    if not isinstance(value, list) or not value:
        raise lacking(name) if value is None else RefusalError(422, f"{name!r} is not a list of one or more")
    return value


def conversation(value: Any) -> Prompt:
    """Return a prompt: a text, with a chat template's marks or without, or messages. RefusalError, UsageError."""
    return turns_of(value) if isinstance(value, str) else as_prompt(value)


def reply_to(prompt: Prompt, value: Any) -> str:
    """Return the text of a response, without the end marks of a tokenizer. RefusalError, UsageError."""
    if value is None:
        raise RefusalError(422, "a response is null, not a text or messages")
    return without_end(as_response(value, prompt))


def an_anchor(settings: ServerSettings, body: Body, prompt: Prompt, label: Any) -> str | None:
    """Return the response that others are measured against: `anchor`, or the label where the settings say so."""
    given = body.get("anchor")
    if given is None and settings.relative == "anchor":
        given = label
        if not given:
            raise RefusalError(422, "there is no anchor and no label", hint="the server runs with --relative anchor")
    return None if given is None else reply_to(prompt, given)


def a_seat(
    settings: ServerSettings, body: Body, query: Mapping[str, str], prompt: Prompt, *, returns: bool = False
) -> Seat | None:
    """Return where a response belongs, by `group`, `attempt`, `member` and `group_size` in the body or the address.

    Without a group, but with a size, it is the group of its prompt. None where nothing says that there is a group. A
    name stands for one group, unless it `returns`, as that of a task does in each epoch, without a number of the try.
    """
    group = _key(body, query, "group")
    size = _size(settings, body.get("group_size", query.get("group_size")))
    if size == 0 and group is not None and not returns:
        raise RefusalError(422, f"nothing says how many are in group {group!r}", hint="send group_size")
    if size < 2:
        return None
    attempt = _key(body, query, "attempt")
    member = body.get("member")
    if member is not None and not (isinstance(member, int | str) and len(str(member)) <= MOST_KEY_CHARS):
        raise RefusalError(422, "'member' is a number or a short text")
    return Seat(
        group=group or digest(prompt_text(prompt)).hex(),
        size=size,
        attempt="0" if group is not None and attempt is None and not returns else attempt,
        member=member,
    )


def names(body: Body, found: Sequence[str]) -> str | None:
    """Return the first of some fields that is there, as a short text."""
    return next((_key(body, {}, name) for name in found if body.get(name) is not None), None)


def _key(body: Body, query: Mapping[str, str], name: str) -> str | None:
    value = body.get(name, query.get(name))
    if value is not None and not (isinstance(value, int | str) and len(str(value)) <= MOST_KEY_CHARS):
        raise RefusalError(422, f"{name!r} is a number or a text of at most {MOST_KEY_CHARS} characters")
    return None if value is None else str(value)


def _size(settings: ServerSettings, given: Any) -> int:
    if given is None:
        return settings.group_size
    told = str(given)
    if isinstance(given, bool) or not told.isdecimal() or len(told) > MOST_DIGITS or int(told) < 1:
        raise RefusalError(422, f"group_size is a number from 1, not {told[:20]!r}")
    return int(told)


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
