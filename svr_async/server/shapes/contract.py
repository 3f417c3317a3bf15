"""What a route is: a path, how it answers, and an example of both sides for the page and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svr_async.server.refusal import RefusalError
from svr_async.server.rewarder import Rewarder
from svr_async.server.rewards import Reward


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: the JSON of its body, and what stands behind the `?` of its address."""

    body: Any
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is answered, as JSON, and how many rewards in it are the declared fallback."""

    value: Any
    fallbacks: int = 0

    @classmethod
    def of(cls, value: Any, rewards: Sequence[Reward]) -> Told:
        """Return an answer with these rewards in it."""
        return cls(value=value, fallbacks=sum(reward.is_fallback for reward in rewards))


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path, or several that answer alike; `body` and `reply` are examples, `for_whom` names who sends such bodies."""

    paths: tuple[str, ...]
    answer: Callable[[Rewarder, Call], Awaitable[Told]]
    summary: str
    for_whom: str
    body: Mapping[str, Any]
    reply: Any
    query: Mapping[str, str] = field(default_factory=dict)


def check_batch(rewarder: Rewarder, count: int) -> None:
    """Raise RefusalError for more responses in one body than may be under way at once."""
    most = rewarder.settings.max_requests
    if count > most:
        raise RefusalError(413, f"{count:,} responses in one body are more than {most:,}", hint="send fewer at a time")
