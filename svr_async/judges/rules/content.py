"""Checks of content against the prompt: coverage, copying, examples, reasons, sources, choices."""

from __future__ import annotations

import re
from itertools import islice

from svr_async.judges.rules.intent import keywords, offered_options, speaks_of_feelings, stems
from svr_async.judges.rules.lexicon import EMPATHY, EXAMPLES, REASONS, SUMMARIES
from svr_async.judges.rules.spec import Finding, Whole, both_ways, spec, yes_if
from svr_async.judges.rules.text import TextView, plain
from svr_async.judges.rules.wording import any_in, count_in

# Every check takes (prompt, response, **args), whether it needs the prompt or not.
# ruff: noqa: ARG001

COPY_RUN = 8
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,30}(?: [A-Z][a-z]{1,30}){0,3}")
_STEP = re.compile(r"\b(?:step \d|first(?:ly)?,|second(?:ly)?,|third(?:ly)?,|next,|then,|finally,|lastly,)")
_SOURCE = re.compile(r"\baccording to\b|https?://|\b(?:19|20)\d\d\)|\bet al\b|\[\d{1,2}\]|\bsource:|\breferences?:")
_CITED = re.compile(r'"[^"\n]{12,300}"|^> \S', re.MULTILINE)
_CHOSEN = re.compile(
    r"(?:^|answer(?: is)?:? |option |choice |correct(?: answer)? is:? |^is )\**\(?([A-Ha-h])(?:[).:,*]|\s|\Z)"
)
_FINAL = re.compile(r"\b(?:the (?:final |correct )?answer is|final answer|therefore|thus|hence|so,? the)\b|\\boxed")


def covers_keywords(prompt: TextView, response: TextView, *, percent: int) -> Finding | None:
    """At least a percentage of the prompt's key words occurs; by the share. Abstains for a prompt without any."""
    share = _coverage(prompt, response)
    return None if share is None else Finding(100 * share >= percent, round(share, 3))


def _coverage(prompt: TextView, response: TextView) -> float | None:
    wanted = keywords(prompt)
    return sum(word in stems(response) for word in wanted) / len(wanted) if wanted else None


def keeps_to_subject(prompt: TextView, response: TextView) -> Finding | None:
    """At least a fifth of the response's own key words come from the prompt; by the share. Abstains without any."""
    wanted, own = keywords(prompt), keywords(response)
    if not wanted or not own:
        return None
    share = len(set(wanted) & set(own)) / len(own)
    return Finding(share >= 0.2, round(share, 2))


def covers_names(prompt: TextView, response: TextView) -> Finding | None:
    """Every name in the prompt (capitals inside a sentence) occurs; by the share. Abstains where there is none."""
    names = prompt.once(_names)
    if not names:
        return None
    found = sum(name in response.plain for name in names)
    return Finding(found == len(names), found / len(names))


def _names(view: TextView) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.lower() for name in _NAME.findall(view.head.text)))[:20]


def copies_prompt(prompt: TextView, response: TextView) -> Finding | None:
    """More than a fifth of the response's runs of eight words are the prompt's. Abstains for a short prompt."""
    runs = prompt.once(_runs)
    own = response.once(_runs)
    if not runs or not own:
        return None
    share = len(runs & own) / len(own)
    return Finding(share > 0.2, round(share, 2))


def _runs(view: TextView) -> frozenset[tuple[str, ...]]:
    words = view.head.lower_words
    return frozenset(zip(*(islice(words, i, None) for i in range(COPY_RUN)), strict=False))


def restates_question(prompt: TextView, response: TextView) -> Finding:
    """The response begins by repeating the prompt's first sentence word for word."""
    first = prompt.once(_first_words)
    return yes_if(first and first in response.opening)


def _first_words(view: TextView) -> str:
    """Return up to twelve words of a text's first sentence, in lower case; empty if there are fewer than four."""
    sentences = TextView(view.stripped[:1000]).sentences
    words = plain(sentences[0]).split()[:12] if sentences else []
    return " ".join(words).rstrip(".?!:") if len(words) >= 4 else ""


def gives_example(prompt: TextView, response: TextView) -> Finding:
    """The response gives an example."""
    return yes_if(any_in(response.head.plain, EXAMPLES))


def gives_reasons(prompt: TextView, response: TextView) -> Finding:
    """The response gives reasons; more kinds of them, up to four, are better."""
    found = count_in(response.head.plain, REASONS)
    return Finding(found >= 1, float(min(found, 4)))


def gives_steps(prompt: TextView, response: TextView) -> Finding:
    """The response goes through steps: numbered items, or words such as "first" and "finally"."""
    numbered = sum(item.numbered for item in response.layout.items) >= 3
    return yes_if(numbered or len(_STEP.findall(response.head.plain)) >= 2)


def names_source(prompt: TextView, response: TextView) -> Finding:
    """The response names a source: a link, a citation, "according to"."""
    return yes_if(_SOURCE.search(response.head.plain))


def quotes_text(prompt: TextView, response: TextView) -> Finding:
    """The response quotes a passage, in double quotes or as a block quote."""
    return yes_if(_CITED.search(response.head.unixed))


def sums_up(prompt: TextView, response: TextView) -> Finding:
    """The response sums up or concludes."""
    return yes_if(any_in(response.head.plain, SUMMARIES))


def picks_option(prompt: TextView, response: TextView) -> Finding | None:
    """Of a prompt's lettered options, the response names exactly one as its choice. Abstains for other prompts."""
    options = offered_options(prompt)
    if not options:
        return None
    chosen = {letter.upper() for letter in _CHOSEN.findall(response.stripped[:2000])} & set(options)
    return yes_if(len(chosen) == 1)


def states_answer(prompt: TextView, response: TextView) -> Finding:
    """The response marks a conclusion as its answer, with "therefore", "the answer is" or a box."""
    return yes_if(_FINAL.search(response.head.plain))


def shows_empathy(prompt: TextView, response: TextView) -> Finding | None:
    """A user who tells of their feelings gets a word of understanding. Abstains for other prompts."""
    return yes_if(any_in(response.head.plain, EMPATHY)) if speaks_of_feelings(prompt) else None


CHECKS = (
    *both_ways(
        covers_keywords,
        "takes up at least {percent} percent of the prompt's key words",
        "misses_keywords",
        "takes up less than {percent} percent of the prompt's key words",
        facet="coverage",
        percent=(Whole(1), (25, 50, 75)),
    ),
    *both_ways(
        keeps_to_subject,
        "keeps to the prompt's subject",
        "leaves_subject",
        "moves away from the prompt's subject",
        facet="conciseness",
        opposite_facet="coverage",
    ),
    spec(covers_names, "mentions every name in the prompt", facet="coverage"),
    *both_ways(
        copies_prompt, "largely copies the prompt", "own_words", "does not largely copy the prompt", facet="coherence"
    ),
    *both_ways(
        restates_question,
        "begins by repeating the prompt",
        "no_restating",
        "does not begin by repeating the prompt",
        facet="conciseness",
    ),
    *both_ways(gives_example, "gives an example", "no_example", "does not give any example", facet="coverage"),
    *both_ways(gives_reasons, "gives reasons", "no_reasons", "does not give any reasons", facet="reasoning"),
    *both_ways(gives_steps, "goes through steps", "no_steps", "does not go through steps", facet="reasoning"),
    *both_ways(names_source, "names a source", "no_source", "does not name any source", facet="grounding"),
    *both_ways(quotes_text, "quotes a passage", "no_quotation", "does not quote any passage", facet="grounding"),
    *both_ways(
        sums_up, "sums up at the end or concludes", "no_summary", "does not sum up or conclude", facet="coherence"
    ),
    spec(picks_option, "names exactly one of the prompt's options as its choice", facet="correctness"),
    *both_ways(
        states_answer,
        "marks its conclusion as the answer",
        "unmarked_answer",
        "does not mark a conclusion as the answer",
        facet="reasoning",
    ),
    *both_ways(
        shows_empathy,
        "shows understanding where the user tells of feelings",
        "lacks_empathy",
        "shows no understanding where the user tells of feelings",
        facet="style",
    ),
)
