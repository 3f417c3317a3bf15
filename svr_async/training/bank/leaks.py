"""Which proposed rubrics are refused: empty, too long, about "response A", or quoting what they were written from."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric

# Thai, Lao, Burmese, Khmer, kana and Chinese characters: scripts that write no spaces between words.
SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SPACELESS = re.compile(f"[{SPACELESS}]")


def half_words(tokens: Sequence[str]) -> list[int]:
    """Return what each token counts in half words: 1 for a character of a script without spaces, 2 for a word."""
    return [1 if len(token) == 1 and _SPACELESS.match(token) else 2 for token in tokens]


def word_runs(tokens: Sequence[str], words: int) -> Iterator[tuple[int, int]]:
    """Yield where every shortest run of tokens that counts so many words begins and ends, in rising order."""
    halves = half_words(tokens)
    start = held = 0
    for end, half in enumerate(halves, 1):
        held += half
        while held - halves[start] >= 2 * words:
            held -= halves[start]
            start += 1
        if held >= 2 * words:
            yield start, end


QUOTE_WORDS = 13  # the n-gram length of the paper's decontamination
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
_TOKEN = re.compile(rf"[{SPACELESS}]|[^\W_{SPACELESS}]+")


class Refusal(StrEnum):
    """Why a proposed rubric is not taken."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    NOT_SELF_CONTAINED = "not_self_contained"
    QUOTES_RESPONSE = "quotes_response"
    QUOTES_PROMPT = "quotes_prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """The rubrics that were taken, and how many were refused for which reason."""

    taken: tuple[Rubric, ...]
    refused: Counter[str] = field(default_factory=Counter)


def screen(rubrics: Iterable[Rubric], pair: PreferencePair, *, others: Sequence[str] = ()) -> Screened:
    """Return the rubrics proposed for a pair that may enter the bank; `others` are more responses that were shown."""
    source = Source.of(pair, others)
    taken: list[Rubric] = []
    refused = Counter[str]()
    for rubric in rubrics:
        reason = refusal(rubric.text, source)
        if reason is None:
            taken.append(rubric)
        else:
            refused[reason.value] += 1
    return Screened(taken=tuple(taken), refused=refused)


@dataclass(frozen=True, slots=True)
class Source:
    """What a rubric was written from, as texts of tokens between spaces."""

    prompt: str
    responses: tuple[str, ...]

    @classmethod
    def of(cls, pair: PreferencePair, others: Sequence[str] = ()) -> Source:
        """Read a pair and further responses."""
        responses = (pair.chosen, pair.rejected, *others)
        return cls(_spaced(_tokens(prompt_text(pair.prompt))), tuple(_spaced(_tokens(text)) for text in responses))


def refusal(text: str, source: Source | None = None) -> Refusal | None:
    """Return why a rubric text is refused, the first reason that holds; None where it is taken.

    Quoting is tested where the source is given: QUOTE_WORDS words in a row, case and punctuation aside.
    """
    if not any(char.isalnum() for char in text):
        return Refusal.EMPTY
    if len(text) > MAX_RUBRIC_CHARS:
        return Refusal.TOO_LONG
    if not self_contained(text):
        return Refusal.NOT_SELF_CONTAINED
    return None if source is None else _quotes(text, source)


def self_contained(text: str) -> bool:
    """Tell whether a rubric can be read without the pair that it came from: no "response A", no "the other answer"."""
    plain = " ".join(unicodedata.normalize("NFKC", text).split())
    return not (_LABELLED.search(plain) or _RELATIVE.search(plain))


def _quotes(text: str, source: Source) -> Refusal | None:
    tokens = _tokens(text)
    runs = [_spaced(tokens[start:end]) for start, end in word_runs(tokens, QUOTE_WORDS)]
    if any(run in response for run in runs for response in source.responses):
        return Refusal.QUOTES_RESPONSE
    return Refusal.QUOTES_PROMPT if any(run in source.prompt for run in runs) else None


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def _spaced(tokens: Iterable[str]) -> str:
    return f" {' '.join(tokens)} "
