"""Commonplaces: what nearly every response of a varied world shows, the preferred and the rejected alike.

Whoever describes one good response lists such things as readily as what it was preferred for. Whoever has the other
response beside it sees that they set nothing apart.
"""

from __future__ import annotations

from svr_async.simulation.catalogue import Criterion

COMMONPLACES: tuple[Criterion, ...] = (
    Criterion(
        "coverage",
        "speaks to the subject of the prompt",
        "All of this concerns the matter raised.",
        "Some of this concerns other matters.",
        "stays on topic",
        "deals with what the conversation is about",
    ),
    Criterion(
        "language",
        "is written in complete sentences",
        "Every thought here is put in a full sentence.",
        "Thoughts here, in scraps.",
        "is grammatical prose rather than notes",
        "has a subject and verb in all it states",
    ),
    Criterion(
        "language",
        "responds in the language of the prompt",
        "The reply stays in plain English, as the message did.",
        "Ein paar Worte vorab auf Deutsch.",
        "is composed in the same tongue as the request",
        "sticks to English as the user does",
    ),
    Criterion(
        "grounding",
        "takes up the words of the request",
        "Your own terms are used in what follows.",
        "Terms of my own are used in what follows.",
        "echoes key terms from the query",
        "reuses vocabulary found in the assignment",
    ),
    Criterion(
        "style",
        "keeps a civil tone",
        "With kind regards to everybody involved.",
        "Spare me the fuss.",
        "remains courteous",
        "is free of insults and rudeness",
    ),
    Criterion(
        "coverage",
        "suggests something that can be acted upon",
        "There is a thing to do about it today.",
        "There is a thing to muse about.",
        "is practical",
        "proposes an action the user might take",
    ),
    Criterion(
        "reasoning",
        "gives at least one reason",
        "The reason is that it saves a trip.",
        "Reasons aside.",
        "supports a statement with some argument",
        "uses because or since somewhere",
    ),
    Criterion(
        "format",
        "divides its text into paragraphs",
        "One paragraph for each part, then.",
        "No paragraphs were thought necessary.",
        "is broken up by blank lines",
        "groups related sentences into blocks",
    ),
    Criterion(
        "correctness",
        "keeps its spelling correct",
        "The spelling was looked over before sending.",
        "The speling was not lookd over.",
        "has no typographical errors",
        "is carefully proofread",
    ),
    Criterion(
        "coherence",
        "says what it is going to cover",
        "First the setting, then the details.",
        "What comes next is anyone's guess.",
        "announces its own contents",
        "outlines the plan of the reply early",
    ),
    Criterion(
        "format",
        "uses punctuation as is usual",
        "Commas, colons and stops sit where they belong.",
        "Commas colons and stops sit nowhere",
        "places commas and full stops conventionally",
        "is properly punctuated",
    ),
    Criterion(
        "conciseness",
        "stops once it has said its piece",
        "Nothing further needs adding to this account.",
        "And so on, and on, and",
        "reaches a proper end",
        "is not cut off midway",
    ),
)
"""Attributes that tell nothing, since hardly any response lacks them."""
