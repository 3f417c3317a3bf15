"""What a judge says in words: the sides that it names as the better one, beside a mark that may only be quoted.

English alone, and plain sentences alone ("candidate B is better", "I prefer the second response"): what is not
recognised says nothing. It is looked at where a reply carries no nonce, so that its mark could be a candidate's.
"""

from __future__ import annotations

import re

from svr_async.core.pair import Side

_THING = r"(?:candidates?|responses?|answers?|outputs?|assistants?|options?|models?|texts?|repl(?:y|ies)|ones?)"
_NAME = (
    rf"(?:(?:{_THING}\s+)?[(\[\"'“*_]{{0,4}}(?:\b(?P<letter>(?-i:[AB]))\b|(?<=\()(?P<small>[ab])(?=\)))[)\]\"'”*_]{{0,4}}"
    rf"(?:['’]s\s+{_THING})?|(?P<place>first|second)\s*{_THING})"
)
_ADVERB = (  # a capital A names a side: "B\n\nA wins." says nothing of B
    r"(?:[a-z]+ly|much|far|by\s+far|overall|then|also|still|the|(?-i:a)|thus|therefore|so|"
    r"in\s+(?:all|my\s+opinion|short))"
)
_PRAISE = (
    r"(?:better|best|stronger|strongest|superior|preferable|preferred|winner|right\s+choice|"
    r"more\s+(?:accurate|helpful|correct|convincing|complete|precise|useful|suitable|appropriate))"
)
_IS = r"(?:is|was|seems|appears|remains|looks|does|did|performs|comes\s+(?:across|out)|would\s+be)"
_TAKEN = r"(?:prefer|choose|pick|favou?r|select|go\s+(?:with|for)|vote\s+(?:for|goes\s+to)|side\s+with|lean\s+towards?)"
_CALLED = rf"(?:winner|verdict|choice|preference|decision|(?:better|best|stronger|superior|preferred)(?:\s+{_THING})?)"
_SAYS = (
    re.compile(
        rf"{_NAME},?\s+(?:{_ADVERB},?\s+){{0,3}}(?:{_IS}(?:\s+as)?\s+(?:{_ADVERB}\s+){{0,4}}{_PRAISE}|wins)\b",
        re.IGNORECASE,
    ),
    re.compile(rf"\b{_TAKEN}\s+(?:the\s+)?{_NAME}", re.IGNORECASE),
    re.compile(
        rf"\b{_CALLED}\s*(?:(?:\bis\b|\bgoes\s+to\b|\bwould\s+be\b|[:=–—-])[\s*_]*)+"
        rf"(?:(?:for|clearly|the)\s+){{0,2}}{_NAME}",
        re.IGNORECASE,
    ),
)
_WITHDRAWN = re.compile(
    r"(?:\b(?:not|never|no|nor|neither|if|unless|whether|why|than|how)\b|n['’]t\b)[^.!?\n]{0,24}$",
    re.IGNORECASE,
)
_MOST_BEFORE = 40
_MOST_CHARS = 64_000  # at the end of a text: twice what a judge writes that reasons at length


def named_winners(text: str) -> list[Side]:
    """Return the sides that sentences of a text name as the better one, in the order of the text."""
    text = text[-_MOST_CHARS:]
    found = [one for says in _SAYS for one in says.finditer(text) if not _withdrawn(text, one.start())]
    return [_side(one) for one in sorted(found, key=re.Match.start)]


def _withdrawn(text: str, at: int) -> bool:
    """Whether what stands ahead of a place on its line denies what follows, or supposes it only."""
    return _WITHDRAWN.search(text[max(at - _MOST_BEFORE, text.rfind("\n", 0, at) + 1) : at]) is not None


def _side(named: re.Match[str]) -> Side:
    letter = named["letter"] or named["small"]
    return Side(letter.upper()) if letter else Side.A if named["place"].casefold() == "first" else Side.B
