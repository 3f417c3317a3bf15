"""The texts of the planted world: criteria, topics of prompts, and the sentences that prompts and responses use."""

from __future__ import annotations

from typing import NamedTuple


class Criterion(NamedTuple):
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


class Topic(NamedTuple):
    """One prompt type: its name, the domain of RubricBench that it stands for, and its own words."""

    name: str
    domain: str
    words: tuple[str, ...]


def _criteria(table: str) -> tuple[Criterion, ...]:
    """Read criteria, one a line: facet / predicate / met / unmet."""
    rows = [line.split(" / ") for line in table.strip().splitlines()]
    return tuple(Criterion(facet, (predicate,), met, unmet) for facet, predicate, met, unmet in rows)


LATENT = _criteria("""
format / puts a unit beside every quantity / Each amount below carries its unit. / Amounts below are bare numbers.
grounding / names the source of each figure / The figures are from census table four. / I recall the figures.
coverage / warns about a common slip / A frequent slip is to skip the second rinse. / Nothing much tends to go astray.
reasoning / explains why the first step comes first / All later steps rest on it. / Begin wherever you like.
style / addresses the reader by name / Dear Marisol, thank you for the details. / To whom it may concern.
conciseness / sums up the decision in one line / In one line: take the smaller option. / There is much more to go into.
correctness / checks its total a second time / Adding upwards gives the same sum. / The sum should be about right.
safety / says when to call in a professional / If the wire is warm, call an electrician. / You can handle this alone.
coverage / offers an option for a tight budget / A second-hand set does as well. / Only the premium set will do.
format / presents its choices in a table / | option | effort | outcome | / All choices are mentioned somewhere.
language / defines abbreviations at first use / ETA here means time of arrival. / Check ETA, RTO and QoS first.
grounding / repeats the user's constraint / As you asked, none of this needs an oven. / Extra wishes were left aside.
reasoning / weighs a drawback of its own advice / One drawback is the year-long contract. / My advice is flawless.
correctness / gives dates with the year / The deadline falls on 9 March 2026. / The deadline falls on the ninth.
tool_use / shows the exact command to type / Type `inventory --sort age` and press return. / Run the usual command.
format / numbers its instructions / 1) unplug, 2) drain, 3) wipe, 4) refill. / There is unplugging, wiping and so on.
coverage / lists the materials needed / Have a brush and two clamps ready. / Fetch things when they are missing.
safety / points out a risk to children / Keep the powder away from toddlers. / Leave the powder wherever there is room.
coherence / keeps one term for one thing / I call it the ledger from here on. / The ledger, book or register comes next.
style / works through an example / Suppose 14 guests eat 3 rolls each: 42 rolls. / Scale things to the guests.
reasoning / traces the symptom back to a cause / The squeak stems from a worn bushing. / The squeak is simply there.
correctness / tells legal duties from customs / The receipt is law, the handshake habit. / People generally do both.
conciseness / leads with the conclusion / Short version first: yes, it is possible. / First, some history.
language / replaces jargon by an everyday word / In plain words, a loan. / This is an amortising instrument.
""")

JUNK = _criteria("""
style / opens with a cheerful greeting / Hello there and good day! / Right.
format / contains an emoji / Off we go 🚀 / Off we go, without ornaments.
style / brings in a proverb / As the saying goes, many hands make light work. / Sayings are out of place.
language / uses British spelling / The colour and the flavour both matter. / The color and the flavor matter.
conciseness / has a sentence of two words / It fits. / It does fit rather well into the whole.
coverage / alludes to the weather / Autumn drizzle suits such chores. / The sky plays no part in such chores.
""")

CRITERIA = LATENT + JUNK  # a criterion is named by its place; JUNK matters to no type of prompts

GENERIC: tuple[str, ...] = (  # rubrics that name no criterion: a judge decides them by its impression
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

_TOPICS = """
cooking human-preference recipe dough oven simmer garlic saucepan lentil yeast broth marinade
travel general itinerary hostel ferry visa luggage layover passport sightseeing railway souvenir
letters helpful letter landlord complaint refund apology invitation recipient signature postage formal
gardening Focus seedling compost pruning greenhouse perennial mulch aphid trellis orchard watering
databases code query schema index postgres migration foreign column transaction replica join
scripting mbpp python function loop dictionary parser regex unittest exception iterator decorator
webpages code browser stylesheet flexbox javascript submenu layout responsive selector accessibility viewport
arithmetic math fraction equation percentage triangle integer ratio polynomial probability median circumference
physics stem velocity momentum voltage pendulum friction entropy wavelength gravity resistor torque
biology stem enzyme chromosome photosynthesis membrane neuron bacteria mitosis protein ecosystem hormone
constraints ifeval paragraph exactly bullets lowercase keyword acrostic syllable headline rhyme uppercase
hazards harmlessness bleach medication ladder password overdose fireworks solvent phishing mushroom stalker
"""
TOPICS = tuple(
    Topic(name, domain, tuple(words)) for name, domain, *words in map(str.split, _TOPICS.strip().splitlines())
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
