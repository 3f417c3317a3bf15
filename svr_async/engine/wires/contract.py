"""What a wire is: where a question goes, how it is written, and how the reply and its errors are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from svr_async.engine.reply import Reply

Params = tuple[tuple[str, Any], ...]
QUESTION = "question"  # the role of a message that is a statement, to be answered with the probability that it is true


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a JSON reply: a name for it, and its schema as JSON.

    The schema is bytes since its order counts: a grammar writes the keys of the reply in the order of the schema's.
    """

    name: str
    schema: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a judge wants of an endpoint beside a model and a length: each wire spells it, or leaves it out.

    What is None, "" or empty is not sent. `effort` is how much to reason; `effort_style` and `structured` are the
    profile's. `form` is the JSON schema of the reply, where it has one; `extra` are further fields of the body, as the
    endpoint itself spells them.
    """

    temperature: float | None = 0.0
    top_p: float | None = 1.0
    n: int | None = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    effort: str = ""
    effort_style: str = "none"
    structured: str = "none"
    form: Form | None = None
    extra: Params = ()


class Asked(Protocol):
    """What a request says, whatever endpoint it is for: (role, content) a message, `params` as the wire spells them."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def messages(self) -> tuple[tuple[str, str], ...]:
        """The conversation; the first message may be the system's."""

    @property
    def max_tokens(self) -> int:
        """Tokens that the answer may take."""

    @property
    def max_tokens_field(self) -> str:
        """How the profile calls that number."""

    @property
    def params(self) -> Params:
        """Further fields of the body."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wire:
    """How endpoints of one kind are spoken to; `name` is what a profile calls it.

    `path` follows the base URL. `headers` are those that go with a key, "" for none. `params` spells settings, `body`
    is the JSON of a question. `read` takes body and status of a reply; BadBodyError where it is no whole answer.
    `error` is what a body says of an error, as {code, type, message}, in the words of `classify.py`; empty where it
    says none. `limits` gives a reply's headers the names that OpenAI's have for rates (`x-ratelimit-limit-requests`
    and its kin, in lower case); None where they have them. `batch_url` is what OpenAI's Batch API calls the path; ""
    for a wire that is none of that API's, whose calls cannot be exported. `tries_settings`: the endpoints know OpenAI's
    optional settings (response_format, reasoning_effort, seed), so that `svr doctor` tries them. `questions` is how
    many statements a request may hold, each a message of the role QUESTION, on a wire whose replies are probabilities
    (`statements.py` has their form); 0 for a wire whose replies are texts. `score`: a reply is the
    score of the last turn, as the JSON {"score": number}.
    """

    name: str
    path: str
    headers: Callable[[str], Mapping[str, str]]
    params: Callable[[Settings], Params]
    body: Callable[[Asked], dict[str, Any]]
    read: Callable[[bytes, int], Reply]
    error: Callable[[bytes], Mapping[str, Any]]
    limits: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None
    batch_url: str = ""
    tries_settings: bool = False
    questions: int = 0
    score: bool = False
