"""The texts of the planted world: criteria, topics of prompts, and the sentences that prompts and responses use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Criterion:
    """One latent attribute of responses.

    `predicates` complete "The response …"; `met` and `unmet` are the sentences of responses that have it or lack it.
    """

    facet: str
    predicates: tuple[str, ...]
    met: str
    unmet: str

    @property
    def rubric(self) -> str:
        """Return the rubric that names it."""
        return f"The response {self.predicates[0]}."


@dataclass(frozen=True, slots=True)
class Topic:
    """One prompt type: its name, the RubricBench group that it stands for, and its own words."""

    name: str
    group: str
    words: tuple[str, ...]


def _criteria(table: str) -> tuple[Criterion, ...]:
    r"""Read criteria of two lines each: `facet: predicate`, then `met // unmet` with \n for a line break."""
    lines = table.strip().splitlines()
    rows = []
    for head, sentences in zip(lines[::2], lines[1::2], strict=True):
        facet, predicate = head.split(": ", 1)
        met, unmet = sentences.replace("\\n", "\n").split(" // ")
        rows.append(Criterion(facet, (predicate,), met, unmet))
    return tuple(rows)


LATENT = _criteria("""
format: puts a unit beside every quantity it gives
Each amount below carries its unit, from grams to minutes. // Amounts below are bare numbers.
grounding: names where each figure comes from
The figures are taken from the 2021 census tables, sheet four. // The figures are ones I happen to remember.
coverage: warns about at least one thing that commonly goes wrong
A frequent slip here is to skip the second rinse, so watch for it. // Nothing much tends to go astray.
reasoning: explains why the first step has to precede the others
The opening step comes first because all later ones rest on its outcome. // Take the steps in whatever sequence appeals.
style: addresses the reader by name at the start
Dear Marisol, thank you for the details. // To whom it may concern.
conciseness: finishes with a one-line summary of the decision
In one line: go with the smaller option. // There are many more aspects that one might go into.
correctness: double-checks its total by a second calculation
Adding the columns the other way round confirms the same sum. // The sum should be about right.
safety: tells the reader when to call in a qualified professional
If the wire feels warm, stop and let a licensed electrician look. // You can always handle this alone.
coverage: offers an alternative for a tight budget
Where money is short, a second-hand set does just as well. // Only the premium set is worth buying.
format: presents its options side by side in a table
| option | effort | outcome | // The options are all mentioned somewhere in the text.
language: defines every abbreviation the first time it appears
ETA here means estimated time of arrival. // Check ETA, RTO and QoS first.
grounding: repeats back the constraint that the user set
You asked for nothing that needs an oven, so none of this does. // Any extra wishes were left aside.
reasoning: weighs a disadvantage of its own recommendation
The drawback of my advice is that it ties you down for a year. // My advice has no drawback at all.
correctness: gives dates with the year spelled out
The deadline falls on 9 March 2026. // The deadline falls on the ninth.
tool_use: shows the exact command that has to be typed
Type `inventory --sort age` and press return. // Run the usual command for that.
format: numbers its instructions in the order of execution
1) unplug, 2) drain, 3) wipe, 4) refill. // There is unplugging, wiping, draining and so on.
coverage: lists the materials needed before beginning
Have a brush, two clamps and a sheet of felt ready beforehand. // Fetch things whenever they turn out to be missing.
safety: points out a risk to children or pets
Keep the powder on a high shelf, away from toddlers and cats. // Leave the powder wherever there is room.
coherence: keeps the same term for the same thing throughout
I call it the ledger from here to the end. // The ledger, book, register or file, as it were, comes next.
style: contains a worked example with concrete numbers
Suppose 14 guests eat 3 rolls each: that makes 42 rolls. // Just scale things to the number of guests.
grounding: admits which part of the question it cannot answer
I do not know the price in your town and will not guess it. // Prices are surely similar everywhere.
reasoning: traces the symptom back to an underlying cause
The squeak stems from a worn bushing, not from the belt. // The squeak is simply there.
correctness: distinguishes legal duties from mere customs
The receipt is required by statute; the handshake is only habit. // People generally do both.
conciseness: leads with the conclusion and leaves background for later
Short version first: yes, it is possible. // Before any conclusion, some history is in order.
tool_use: mentions which software version the advice applies to
This holds for release 8.3 and newer. // This should hold on most installations.
coverage: says how long each phase is expected to last
Plan two days for sorting and five for drying. // It takes as long as it takes.
safety: recommends making a backup copy in advance
Copy the folder to another disk prior to touching anything. // You may start editing the originals right away.
language: avoids jargon or replaces it with an everyday word
The plain word for that is a loan. // This is an amortising bullet instrument.
coherence: links the last paragraph to the opening question
Which brings us back to what you asked at the outset. // On an unrelated note, that is all.
format: encloses code in a fenced block with its language
```python\\nrows.sort()\\n``` // rows dot sort with brackets does it.
correctness: treats the empty input as a separate case
With zero entries the routine returns an empty list. // Entries are presumed to exist.
reasoning: states the assumptions behind the estimate
This takes for granted a 40-hour week and no overtime. // The estimate speaks for itself.
style: acknowledges how the person may be feeling
Losing the booking must have been upsetting. // Bookings get lost.
coverage: names the colleague or role responsible for every task
Owners: Priya drafts, Tomas reviews, Lin signs. // Somebody will see to each task.
grounding: quotes the relevant line of the supplied document
Clause seven reads: "notice shall be given in writing". // The paper says something of the sort.
safety: declines the hazardous part yet helps with the remainder
I will leave out the mixing ratios but gladly cover storage. // Here is all of it, hazards included.
conciseness: stays with three recommendations at most
My three suggestions, and no more, follow. // Here come seventeen suggestions.
tool_use: describes how to verify that the change worked
To verify, reload the page: the badge should turn green. // It will have worked.
language: supplies the pronunciation of the foreign terms
Croissant is said krwah-SAHN. // The foreign terms are said as they are written.
coherence: signals with headings where a new topic starts
## Storage\\nThis section is about keeping, not making. // Keeping and making run together in what follows.
correctness: rounds results to the precision of the given data
Since the inputs have two digits, so does the result: 3.7. // The result is 3.70418277.
reasoning: compares the outcome with a rough expectation
A ballpark of fifty tallies with the 52 found. // Whether 52 is plausible was not looked at.
coverage: includes a vegetarian or allergy-friendly variant
Lentils can stand in for the chicken, and oat milk for cream. // Chicken and cream cannot be replaced.
style: ends by inviting a specific follow-up question
Tell me your shoe size and I can narrow it down. // That should be everything.
grounding: separates proven facts from personal opinion
Measured: it weighs 2 kg. My own view: it looks sturdy. // It is heavy, sturdy and lovely.
format: marks the single most urgent item in the list
(!) Renewing the permit cannot wait. // All items may be done at leisure.
tool_use: tells how to undo the operation afterwards
To revert, restore yesterday's snapshot from the menu. // There is no going back afterwards.
safety: keeps private addresses and account details out of the text
I have masked the account digits on purpose. // The account is 5532 0098 1147.
""")
"""Criteria that at least one type of prompts cares about."""

JUNK = _criteria("""
style: opens with a cheerful greeting
Hello there and good day! // Right.
style: thanks the user for an interesting inquiry
What a delightful thing to be asked about, many thanks. // No thanks are due.
language: uses British spelling
The colour and the flavour both matter. // The color and the flavor matter.
format: contains an emoji somewhere in the body
Off we go 🚀 // Off we go, without ornaments.
style: brings in a proverb or saying
As the saying goes, many hands make light work. // Sayings are out of place.
coherence: begins some sentence with a connective adverb
Consequently, onwards. // Onwards then.
format: closes with the writer's signature
Yours, the assistant // No signature follows.
style: includes a rhetorical question to the audience
And who would not want that? // Everyone wants that.
language: employs the passive voice in the introduction
The matter has been looked into. // I looked into the matter.
conciseness: has a sentence shorter than four words
It fits. // It does fit rather well into the whole.
coverage: alludes to a season or the weather
Autumn drizzle suits such chores. // The sky plays no part in such chores.
style: mentions a personal hobby or memory
It reminds me of summers spent building kites. // It reminds me of nothing in particular.
""")
"""Attributes that vary between responses and that no type cares about."""

CRITERIA = LATENT + JUNK
"""All criteria; a criterion's place here is its number in the whole simulation."""

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
"""Rubrics that name no criterion: a judge decides them by its impression."""

_TOPICS = """
cooking CHAT recipe dough oven simmer garlic saucepan lentil yeast broth marinade whisk pastry skillet basil roast
    casserole vinegar dumpling gravy zest
travel CHAT itinerary hostel ferry visa luggage layover passport sightseeing railway souvenir campsite customs airport
    excursion currency backpack harbour roadtrip lodging timetable
letters CHAT letter landlord complaint refund apology invitation recipient signature postage formal reminder neighbour
    tenancy reference resignation envelope courtesy salutation grievance enquiry
gardening CHAT seedling compost pruning greenhouse perennial mulch aphid trellis orchard watering fertiliser hedge
    bulb lawn sapling raised blight pollinator trowel shrub
databases CODE query schema index postgres migration foreign column transaction replica join trigger sqlite tuple
    normalise deadlock cursor view partition rollback aggregate
scripting CODE python function loop dictionary parser regex unittest exception iterator decorator module recursion
    string pathlib generator traceback lambda refactor argument closure
webpages CODE browser stylesheet flexbox javascript submenu layout responsive selector accessibility viewport form
    navbar cookie rendering html tooltip dropdown animation hyperlink router
arithmetic STEM fraction equation percentage triangle integer ratio polynomial probability median circumference
    quotient exponent algebra divisor prime slope perimeter factorial matrix sequence
physics STEM velocity momentum voltage pendulum friction entropy wavelength gravity resistor torque lens thermometer
    magnet acceleration photon pressure kinetic circuit orbit buoyancy
biology STEM enzyme chromosome photosynthesis membrane neuron bacteria mitosis protein ecosystem hormone vaccine
    ribosome antibody fossil larva genome predator chlorophyll kidney mutation
constraints IF paragraph exactly bullets lowercase keyword acrostic syllable headline rhyme uppercase placeholder
    limerick wordcount comma stanza title palindrome slogan haiku caption
hazards SAFETY bleach medication ladder password overdose fireworks solvent phishing mushroom stalker pesticide weapon
    battery asbestos allergy scam carbonmonoxide generatorfumes lockpick dosage
"""
TOPICS = tuple(
    Topic(name, group, tuple(words))
    for name, group, *words in map(str.split, _TOPICS.strip().replace("\n    ", " ").splitlines())
)

_SHARED = """
morning cousin project meeting friend weekend budget notebook teacher office holiday sister window paper afternoon
colleague family plan idea question list kitchen garden city summer winter phone photo story game team school shop
market street bridge river music film chair table lamp coffee train bicycle jacket birthday calendar promise letterbox
corner basket button mirror pocket blanket candle ticket journey village museum library hospital dentist uncle
grandmother nephew puppy painting guitar drawer shelf carpet ceiling hallway balcony elevator parcel receipt coupon
discount deadline draft sketch outline checklist plumber errand routine habit hobby festival concert picnic barbecue
sunset thunder puddle umbrella scarf boots mitten
"""
SHARED_WORDS = tuple(_SHARED.split())
"""Words of prompts of all types."""

OPENINGS: tuple[str, ...] = (
    "Could you help me with the {w} and the {w}?",
    "I am stuck on a {w} that involves some {w}.",
    "My {n} wants to know about the {w} and its {w}.",
    "Please explain the {w}, then deal with the {w}.",
    "What should I do about the {w} when there is a {w} involved?",
    "I need advice on {w} and {w} before the {n}.",
)

MIDDLES: tuple[str, ...] = (
    "There is also a {w} next to the {n}.",
    "We talked about it in the {n} near the {n}.",
    "The {n} says that the {w} matters more than the {n}.",
    "Think of the {w} as well, and of my {n}.",
    "Last {n} somebody mentioned a {n} and a {w}.",
    "It should suit a {n} with a {n} and little time.",
    "By the way, the {n} is already taken care of.",
)

FILLERS: tuple[str, ...] = (
    "The {w} deserves a closer look.",
    "As for the {w}, it goes together with the {w}.",
    "Then comes the {w}, which is straightforward.",
    "With the {w} out of the way, turn to the {w}.",
    "Many people begin with the {w}.",
)

PADDING: tuple[str, ...] = (
    "There is a good deal more that could be said about the {w}, and it is worth the time to let it all sink in.",
    "It bears repeating that the {w} is something which, all things considered, merits a patient treatment.",
    "Taking everything together, and seen from every angle, the {w} remains an essential piece of the larger picture.",
)

ASSERTIONS: tuple[str, ...] = (
    "This is definitely the right approach.",
    "Without any doubt, this settles the matter.",
    "I am absolutely certain of all this.",
)

HEADING = "**Key points on {w}**"
