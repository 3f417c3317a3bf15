"""Further wordings of the planted criteria: what one model calls a unit beside every quantity, another calls otherwise.

Each completes "The response …" like the usual predicate of the criterion that it stands beside, and says the same in
words of its own, so that no comparison of texts tells that two of them are one criterion; only judgements do.
"""

from __future__ import annotations

from svr_async.simulation.catalogue import CRITERIA, Criterion
from svr_async.simulation.commonplaces import COMMONPLACES

EVERYTHING: tuple[Criterion, ...] = CRITERIA + COMMONPLACES
"""All attributes that a response can show; `CRITERIA` come first, under the same numbers."""

_FURTHER: dict[str, tuple[str, str]] = {
    # latent criteria
    "puts a unit beside every quantity it gives": (
        "never leaves a number without grams, metres or minutes after it",
        "makes clear in which measure all amounts are expressed",
    ),
    "names where each figure comes from": (
        "backs its statistics with a citation",
        "lets one look up the origin of the data it uses",
    ),
    "warns about at least one thing that commonly goes wrong": (
        "flags a typical mistake before anyone makes it",
        "includes a caution on a frequent pitfall",
    ),
    "explains why the first step has to precede the others": (
        "justifies the sequence by saying what depends on the beginning",
        "gives a reason for starting where it starts",
    ),
    "addresses the reader by name at the start": (
        "has a personal salutation",
        "greets whoever wrote in with their own name",
    ),
    "finishes with a one-line summary of the decision": (
        "boils its verdict down to a single closing sentence",
        "ends on a short recap of what was decided",
    ),
    "double-checks its total by a second calculation": (
        "verifies sums through an independent route",
        "does the arithmetic twice in different ways",
    ),
    "tells the reader when to call in a qualified professional": (
        "draws a line past which an expert should take over",
        "says at what sign of trouble a licensed specialist is required",
    ),
    "offers an alternative for a tight budget": (
        "suggests something cheaper too",
        "caters for people who cannot spend much money",
    ),
    "presents its options side by side in a table": (
        "arranges the choices in rows and columns",
        "uses a grid to set possibilities against one another",
    ),
    "defines every abbreviation the first time it appears": (
        "spells acronyms out in full when introducing them",
        "leaves no cluster of initials unexplained",
    ),
    "repeats back the constraint that the user set": (
        "restates the requirement given in the question",
        "shows that the asker's condition was noticed by saying it again",
    ),
    "weighs a disadvantage of its own recommendation": (
        "is frank on the downside of what it proposes",
        "mentions a cost that comes with following the advice",
    ),
    "gives dates with the year spelled out": (
        "writes calendar days unambiguously, four-digit year included",
        "leaves no doubt about which year a deadline belongs to",
    ),
    "shows the exact command that has to be typed": (
        "contains a line one can paste straight into a terminal",
        "states literally what to enter at the prompt",
    ),
    "numbers its instructions in the order of execution": (
        "is laid out as consecutive steps 1, 2, 3",
        "enumerates what to do so that the succession is evident",
    ),
    "lists the materials needed before beginning": (
        "says up front which supplies to gather",
        "opens the procedure with an inventory of tools",
    ),
    "points out a risk to children or pets": (
        "mentions that toddlers and animals must be kept safe",
        "considers the hazard for small family members",
    ),
    "keeps the same term for the same thing throughout": (
        "is consistent in its vocabulary",
        "does not switch between synonyms for one concept",
    ),
    "contains a worked example with concrete numbers": (
        "demonstrates the method on actual values",
        "walks through a sample computation",
    ),
    "admits which part of the question it cannot answer": (
        "is open about the limits of its knowledge",
        "declares what remains unknown rather than guessing",
    ),
    "traces the symptom back to an underlying cause": (
        "diagnoses the root of the trouble",
        "goes beyond what is visible to find the source of a fault",
    ),
    "distinguishes legal duties from mere customs": (
        "separates what the law demands from what is habit",
        "clarifies which obligations are binding by statute",
    ),
    "leads with the conclusion and leaves background for later": (
        "puts the bottom line at the top",
        "gets to the point in its opening words",
    ),
    "mentions which software version the advice applies to": (
        "pins its guidance to a particular release",
        "states for what edition of the program it holds",
    ),
    "says how long each phase is expected to last": (
        "estimates the duration of every stage",
        "supplies a timeline with days or hours",
    ),
    "recommends making a backup copy in advance": (
        "urges one to save the originals beforehand",
        "advises duplicating files prior to any change",
    ),
    "avoids jargon or replaces it with an everyday word": (
        "is phrased in plain terms that laypeople understand",
        "translates technical expressions into ordinary speech",
    ),
    "links the last paragraph to the opening question": (
        "comes full circle at the close",
        "returns in its ending to what was originally asked",
    ),
    "encloses code in a fenced block with its language": (
        "formats snippets with triple backticks and a syntax tag",
        "sets program text apart for highlighting",
    ),
    "treats the empty input as a separate case": (
        "handles the situation where nothing is passed in",
        "covers a list of zero length explicitly",
    ),
    "states the assumptions behind the estimate": (
        "makes the premises of its forecast explicit",
        "reveals what was taken for granted in the projection",
    ),
    "acknowledges how the person may be feeling": (
        "shows empathy for the mood of whoever asks",
        "recognises the emotional side of the matter",
    ),
    "names the colleague or role responsible for every task": (
        "assigns an owner to all duties",
        "makes it obvious who is to carry out what",
    ),
    "quotes the relevant line of the supplied document": (
        "reproduces the decisive passage verbatim",
        "cites the original wording of the source text in inverted commas",
    ),
    "declines the hazardous part yet helps with the remainder": (
        "withholds dangerous details while assisting with the harmless rest",
        "refuses only what could hurt somebody",
    ),
    "stays with three recommendations at most": (
        "limits itself to a handful of suggestions",
        "does not overwhelm with a long catalogue of tips",
    ),
    "describes how to verify that the change worked": (
        "provides a test of success",
        "tells what one should see once everything is in effect",
    ),
    "supplies the pronunciation of the foreign terms": (
        "indicates how loanwords sound",
        "adds a phonetic hint for unfamiliar names",
    ),
    "signals with headings where a new topic starts": (
        "breaks its content into titled sections",
        "uses captions to mark each change of subject",
    ),
    "rounds results to the precision of the given data": (
        "has a sensible number of significant digits",
        "does not pretend to more accuracy than the measurements allow",
    ),
    "compares the outcome with a rough expectation": (
        "performs a sanity check against a ballpark value",
        "asks whether what it found is plausible in magnitude",
    ),
    "includes a vegetarian or allergy-friendly variant": (
        "accommodates dietary restrictions",
        "offers a substitute for meat or dairy ingredients",
    ),
    "ends by inviting a specific follow-up question": (
        "requests one further detail so as to refine its help",
        "closes with an offer to go deeper on a precise point",
    ),
    "separates proven facts from personal opinion": (
        "labels which claims are evidence and which are views",
        "does not pass off belief as established knowledge",
    ),
    "marks the single most urgent item in the list": (
        "highlights what cannot wait",
        "singles out the top priority among the entries",
    ),
    "tells how to undo the operation afterwards": (
        "explains rolling back to the former state",
        "gives a way of reversing what was done",
    ),
    "keeps private addresses and account details out of the text": (
        "redacts sensitive personal information",
        "protects confidentiality by masking identifying data",
    ),
    # attributes that do not matter
    "opens with a cheerful greeting": ("says hello in a bright mood", "begins on a jolly salutation"),
    "thanks the user for an interesting inquiry": (
        "expresses gratitude that it was consulted",
        "compliments whoever asked on such a nice question",
    ),
    "uses British spelling": ("writes colour rather than color", "follows the orthography of the United Kingdom"),
    "contains an emoji somewhere in the body": (
        "is decorated with a little pictogram",
        "adds a smiley or similar symbol",
    ),
    "brings in a proverb or saying": ("cites folk wisdom", "resorts to a familiar maxim"),
    "begins some sentence with a connective adverb": (
        "makes use of words like consequently or moreover",
        "ties statements together through transition markers",
    ),
    "closes with the writer's signature": ("is signed at the bottom", "bears a name underneath the last line"),
    "includes a rhetorical question to the audience": (
        "asks something without wanting a reply",
        "engages people through a question that answers itself",
    ),
    "employs the passive voice in the introduction": (
        "avoids naming an actor in the opening lines",
        "starts off impersonally, as official prose does",
    ),
    "has a sentence shorter than four words": (
        "contains a very brief statement",
        "punctuates its flow with a terse remark",
    ),
    "alludes to a season or the weather": ("refers to rain, snow or sunshine", "evokes a time of year"),
    "mentions a personal hobby or memory": ("shares an anecdote of its own", "reminisces over past pleasures"),
    # commonplaces
    "speaks to the subject of the prompt": ("stays on topic", "deals with what the conversation is about"),
    "is written in complete sentences": (
        "is grammatical prose rather than notes",
        "has a subject and verb in all it states",
    ),
    "responds in the language of the prompt": (
        "is composed in the same tongue as the request",
        "sticks to English as the user does",
    ),
    "takes up the words of the request": (
        "echoes key terms from the query",
        "reuses vocabulary found in the assignment",
    ),
    "keeps a civil tone": ("remains courteous", "is free of insults and rudeness"),
    "suggests something that can be acted upon": ("is practical", "proposes an action the user might take"),
    "gives at least one reason": ("supports a statement with some argument", "uses because or since somewhere"),
    "divides its text into paragraphs": ("is broken up by blank lines", "groups related sentences into blocks"),
    "keeps its spelling correct": ("has no typographical errors", "is carefully proofread"),
    "says what it is going to cover": ("announces its own contents", "outlines the plan of the reply early"),
    "uses punctuation as is usual": ("places commas and full stops conventionally", "is properly punctuated"),
    "stops once it has said its piece": ("reaches a proper end", "is not cut off midway"),
}

PREDICATES: tuple[tuple[str, ...], ...] = tuple((one.predicate, *_FURTHER[one.predicate]) for one in EVERYTHING)
"""The wordings of every attribute by its number, the usual one first."""

MOST_WORDINGS = min(len(wordings) for wordings in PREDICATES)
