"""The criteria of the simulated world: a rubric text each, and the sentences that show whether a response meets it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Criterion:
    """One latent attribute: how a rubric names it, and what a response says that has it, or lacks it.

    `predicate` completes "The response …"; `met` and `unmet` are whole sentences that occur in responses.
    """

    facet: str
    predicate: str
    met: str
    unmet: str

    @property
    def rubric(self) -> str:
        """Return the rubric in its usual wording."""
        return f"The response {self.predicate}."


LATENT: tuple[Criterion, ...] = (
    Criterion(
        "format",
        "puts a unit beside every quantity it gives",
        "Each amount below carries its unit, from grams to minutes.",
        "Amounts below are bare numbers.",
    ),
    Criterion(
        "grounding",
        "names where each figure comes from",
        "The figures are taken from the 2021 census tables, sheet four.",
        "The figures are ones I happen to remember.",
    ),
    Criterion(
        "coverage",
        "warns about at least one thing that commonly goes wrong",
        "A frequent slip here is to skip the second rinse, so watch for it.",
        "Nothing much tends to go astray.",
    ),
    Criterion(
        "reasoning",
        "explains why the first step has to precede the others",
        "The opening step comes first because all later ones rest on its outcome.",
        "Take the steps in whatever sequence appeals.",
    ),
    Criterion(
        "style",
        "addresses the reader by name at the start",
        "Dear Marisol, thank you for the details.",
        "To whom it may concern.",
    ),
    Criterion(
        "conciseness",
        "finishes with a one-line summary of the decision",
        "In one line: go with the smaller option.",
        "There are many more aspects that one might go into.",
    ),
    Criterion(
        "correctness",
        "double-checks its total by a second calculation",
        "Adding the columns the other way round confirms the same sum.",
        "The sum should be about right.",
    ),
    Criterion(
        "safety",
        "tells the reader when to call in a qualified professional",
        "If the wire feels warm, stop and let a licensed electrician look.",
        "You can always handle this alone.",
    ),
    Criterion(
        "coverage",
        "offers an alternative for a tight budget",
        "Where money is short, a second-hand set does just as well.",
        "Only the premium set is worth buying.",
    ),
    Criterion(
        "format",
        "presents its options side by side in a table",
        "| option | effort | outcome |",
        "The options are all mentioned somewhere in the text.",
    ),
    Criterion(
        "language",
        "defines every abbreviation the first time it appears",
        "ETA here means estimated time of arrival.",
        "Check ETA, RTO and QoS first.",
    ),
    Criterion(
        "grounding",
        "repeats back the constraint that the user set",
        "You asked for nothing that needs an oven, so none of this does.",
        "Any extra wishes were left aside.",
    ),
    Criterion(
        "reasoning",
        "weighs a disadvantage of its own recommendation",
        "The drawback of my advice is that it ties you down for a year.",
        "My advice has no drawback at all.",
    ),
    Criterion(
        "correctness",
        "gives dates with the year spelled out",
        "The deadline falls on 9 March 2026.",
        "The deadline falls on the ninth.",
    ),
    Criterion(
        "tool_use",
        "shows the exact command that has to be typed",
        "Type `inventory --sort age` and press return.",
        "Run the usual command for that.",
    ),
    Criterion(
        "format",
        "numbers its instructions in the order of execution",
        "1) unplug, 2) drain, 3) wipe, 4) refill.",
        "There is unplugging, wiping, draining and so on.",
    ),
    Criterion(
        "coverage",
        "lists the materials needed before beginning",
        "Have a brush, two clamps and a sheet of felt ready beforehand.",
        "Fetch things whenever they turn out to be missing.",
    ),
    Criterion(
        "safety",
        "points out a risk to children or pets",
        "Keep the powder on a high shelf, away from toddlers and cats.",
        "Leave the powder wherever there is room.",
    ),
    Criterion(
        "coherence",
        "keeps the same term for the same thing throughout",
        "I call it the ledger from here to the end.",
        "The ledger, book, register or file, as it were, comes next.",
    ),
    Criterion(
        "style",
        "contains a worked example with concrete numbers",
        "Suppose 14 guests eat 3 rolls each: that makes 42 rolls.",
        "Just scale things to the number of guests.",
    ),
    Criterion(
        "grounding",
        "admits which part of the question it cannot answer",
        "I do not know the price in your town and will not guess it.",
        "Prices are surely similar everywhere.",
    ),
    Criterion(
        "reasoning",
        "traces the symptom back to an underlying cause",
        "The squeak stems from a worn bushing, not from the belt.",
        "The squeak is simply there.",
    ),
    Criterion(
        "correctness",
        "distinguishes legal duties from mere customs",
        "The receipt is required by statute; the handshake is only habit.",
        "People generally do both.",
    ),
    Criterion(
        "conciseness",
        "leads with the conclusion and leaves background for later",
        "Short version first: yes, it is possible.",
        "Before any conclusion, some history is in order.",
    ),
    Criterion(
        "tool_use",
        "mentions which software version the advice applies to",
        "This holds for release 8.3 and newer.",
        "This should hold on most installations.",
    ),
    Criterion(
        "coverage",
        "says how long each phase is expected to last",
        "Plan two days for sorting and five for drying.",
        "It takes as long as it takes.",
    ),
    Criterion(
        "safety",
        "recommends making a backup copy in advance",
        "Copy the folder to another disk prior to touching anything.",
        "You may start editing the originals right away.",
    ),
    Criterion(
        "language",
        "avoids jargon or replaces it with an everyday word",
        "The plain word for that is a loan.",
        "This is an amortising bullet instrument.",
    ),
    Criterion(
        "coherence",
        "links the last paragraph to the opening question",
        "Which brings us back to what you asked at the outset.",
        "On an unrelated note, that is all.",
    ),
    Criterion(
        "format",
        "encloses code in a fenced block with its language",
        "```python\nrows.sort()\n```",
        "rows dot sort with brackets does it.",
    ),
    Criterion(
        "correctness",
        "treats the empty input as a separate case",
        "With zero entries the routine returns an empty list.",
        "Entries are presumed to exist.",
    ),
    Criterion(
        "reasoning",
        "states the assumptions behind the estimate",
        "This takes for granted a 40-hour week and no overtime.",
        "The estimate speaks for itself.",
    ),
    Criterion(
        "style",
        "acknowledges how the person may be feeling",
        "Losing the booking must have been upsetting.",
        "Bookings get lost.",
    ),
    Criterion(
        "coverage",
        "names the colleague or role responsible for every task",
        "Owners: Priya drafts, Tomas reviews, Lin signs.",
        "Somebody will see to each task.",
    ),
    Criterion(
        "grounding",
        "quotes the relevant line of the supplied document",
        'Clause seven reads: "notice shall be given in writing".',
        "The paper says something of the sort.",
    ),
    Criterion(
        "safety",
        "declines the hazardous part yet helps with the remainder",
        "I will leave out the mixing ratios but gladly cover storage.",
        "Here is all of it, hazards included.",
    ),
    Criterion(
        "conciseness",
        "stays with three recommendations at most",
        "My three suggestions, and no more, follow.",
        "Here come seventeen suggestions.",
    ),
    Criterion(
        "tool_use",
        "describes how to verify that the change worked",
        "To verify, reload the page: the badge should turn green.",
        "It will have worked.",
    ),
    Criterion(
        "language",
        "supplies the pronunciation of the foreign terms",
        "Croissant is said krwah-SAHN.",
        "The foreign terms are said as they are written.",
    ),
    Criterion(
        "coherence",
        "signals with headings where a new topic starts",
        "## Storage\nThis section is about keeping, not making.",
        "Keeping and making run together in what follows.",
    ),
    Criterion(
        "correctness",
        "rounds results to the precision of the given data",
        "Since the inputs have two digits, so does the result: 3.7.",
        "The result is 3.70418277.",
    ),
    Criterion(
        "reasoning",
        "compares the outcome with a rough expectation",
        "A ballpark of fifty tallies with the 52 found.",
        "Whether 52 is plausible was not looked at.",
    ),
    Criterion(
        "coverage",
        "includes a vegetarian or allergy-friendly variant",
        "Lentils can stand in for the chicken, and oat milk for cream.",
        "Chicken and cream cannot be replaced.",
    ),
    Criterion(
        "style",
        "ends by inviting a specific follow-up question",
        "Tell me your shoe size and I can narrow it down.",
        "That should be everything.",
    ),
    Criterion(
        "grounding",
        "separates proven facts from personal opinion",
        "Measured: it weighs 2 kg. My own view: it looks sturdy.",
        "It is heavy, sturdy and lovely.",
    ),
    Criterion(
        "format",
        "marks the single most urgent item in the list",
        "(!) Renewing the permit cannot wait.",
        "All items may be done at leisure.",
    ),
    Criterion(
        "tool_use",
        "tells how to undo the operation afterwards",
        "To revert, restore yesterday's snapshot from the menu.",
        "There is no going back afterwards.",
    ),
    Criterion(
        "safety",
        "keeps private addresses and account details out of the text",
        "I have masked the account digits on purpose.",
        "The account is 5532 0098 1147.",
    ),
)
"""What some type of prompt cares about."""

JUNK: tuple[Criterion, ...] = (
    Criterion("style", "opens with a cheerful greeting", "Hello there and good day!", "Right."),
    Criterion(
        "style",
        "thanks the user for an interesting inquiry",
        "What a delightful thing to be asked about, many thanks.",
        "No thanks are due.",
    ),
    Criterion(
        "language",
        "uses British spelling",
        "The colour and the flavour both matter.",
        "The color and the flavor matter.",
    ),
    Criterion(
        "format", "contains an emoji somewhere in the body", "Off we go \N{ROCKET}", "Off we go, without ornaments."
    ),
    Criterion(
        "style",
        "brings in a proverb or saying",
        "As the saying goes, many hands make light work.",
        "Sayings are out of place.",
    ),
    Criterion(
        "coherence",
        "begins some sentence with a connective adverb",
        "Consequently, onwards.",
        "Onwards then.",
    ),
    Criterion(
        "format",
        "closes with the writer's signature",
        "Yours, the assistant",
        "No signature follows.",
    ),
    Criterion(
        "style",
        "includes a rhetorical question to the audience",
        "And who would not want that?",
        "Everyone wants that.",
    ),
    Criterion(
        "language",
        "employs the passive voice in the introduction",
        "The matter has been looked into.",
        "I looked into the matter.",
    ),
    Criterion(
        "conciseness",
        "has a sentence shorter than four words",
        "It fits.",
        "It does fit rather well into the whole.",
    ),
    Criterion(
        "coverage",
        "alludes to a season or the weather",
        "Autumn drizzle suits such chores.",
        "The sky plays no part in such chores.",
    ),
    Criterion(
        "style",
        "mentions a personal hobby or memory",
        "It reminds me of summers spent building kites.",
        "It reminds me of nothing in particular.",
    ),
)
"""Attributes that vary between responses and that no type of prompt cares about."""

GENERIC: tuple[str, ...] = (
    "The response is accurate and free of mistakes.",
    "The answer is helpful to the user.",
    "Everything that was asked for is covered.",
    "The writing is clear and easy to follow.",
    "The reply has a suitable level of detail.",
    "The tone is polite and professional.",
    "The text is well organised.",
    "The content is relevant to the request.",
    "Claims are backed up convincingly.",
    "The response shows real expertise in its field.",
    "It goes beyond the minimum that was requested.",
    "The overall quality would satisfy a demanding reader.",
)
"""Rubrics that name no attribute: a judge answers them by its impression."""

CRITERIA: tuple[Criterion, ...] = LATENT + JUNK
"""Every criterion; its place here is its number everywhere in the simulation."""
