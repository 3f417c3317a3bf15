"""The prompt types of the simulated world: their vocabulary, and the shared words that tell nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """One prompt type: its name, the RubricBench group that it stands for, and its own words."""

    name: str
    group: str
    words: tuple[str, ...]


def _topic(name: str, group: str, words: str) -> Topic:
    return Topic(name, group, tuple(words.split()))


TOPICS: tuple[Topic, ...] = (
    _topic(
        "cooking",
        "CHAT",
        "recipe dough oven simmer garlic saucepan lentil yeast broth marinade whisk pastry skillet basil roast "
        "casserole vinegar dumpling gravy zest",
    ),
    _topic(
        "travel",
        "CHAT",
        "itinerary hostel ferry visa luggage layover passport sightseeing railway souvenir campsite customs "
        "airport excursion currency backpack harbour roadtrip lodging timetable",
    ),
    _topic(
        "letters",
        "CHAT",
        "letter landlord complaint refund apology invitation recipient signature postage formal reminder "
        "neighbour tenancy reference resignation envelope courtesy salutation grievance enquiry",
    ),
    _topic(
        "gardening",
        "CHAT",
        "seedling compost pruning greenhouse perennial mulch aphid trellis orchard watering fertiliser hedge "
        "bulb lawn sapling raised blight pollinator trowel shrub",
    ),
    _topic(
        "databases",
        "CODE",
        "query schema index postgres migration foreign column transaction replica join trigger sqlite tuple "
        "normalise deadlock cursor view partition rollback aggregate",
    ),
    _topic(
        "scripting",
        "CODE",
        "python function loop dictionary parser regex unittest exception iterator decorator module recursion "
        "string pathlib generator traceback lambda refactor argument closure",
    ),
    _topic(
        "webpages",
        "CODE",
        "browser stylesheet flexbox javascript submenu layout responsive selector accessibility viewport form "
        "navbar cookie rendering html tooltip dropdown animation hyperlink router",
    ),
    _topic(
        "arithmetic",
        "STEM",
        "fraction equation percentage triangle integer ratio polynomial probability median circumference "
        "quotient exponent algebra divisor prime slope perimeter factorial matrix sequence",
    ),
    _topic(
        "physics",
        "STEM",
        "velocity momentum voltage pendulum friction entropy wavelength gravity resistor torque lens "
        "thermometer magnet acceleration photon pressure kinetic circuit orbit buoyancy",
    ),
    _topic(
        "biology",
        "STEM",
        "enzyme chromosome photosynthesis membrane neuron bacteria mitosis protein ecosystem hormone vaccine "
        "ribosome antibody fossil larva genome predator chlorophyll kidney mutation",
    ),
    _topic(
        "constraints",
        "IF",
        "paragraph exactly bullets lowercase keyword acrostic syllable headline rhyme uppercase placeholder "
        "limerick wordcount comma stanza title palindrome slogan haiku caption",
    ),
    _topic(
        "hazards",
        "SAFETY",
        "bleach medication ladder password overdose fireworks solvent phishing mushroom stalker pesticide "
        "weapon battery asbestos allergy scam carbonmonoxide generatorfumes lockpick dosage",
    ),
)

_SHARED = """
    morning cousin project meeting friend weekend budget notebook teacher office holiday sister window paper
    afternoon colleague family plan idea question list kitchen garden city summer winter phone photo story game
    team school shop market street bridge river music film chair table lamp coffee train bicycle jacket birthday
    calendar promise letterbox corner basket button mirror pocket blanket candle ticket journey village museum
    library hospital dentist uncle grandmother nephew puppy painting guitar drawer shelf carpet ceiling hallway
    balcony elevator parcel receipt coupon discount deadline draft sketch outline checklist plumber errand
    routine habit hobby festival concert picnic barbecue sunset thunder puddle umbrella scarf boots mitten
"""
SHARED_WORDS: tuple[str, ...] = tuple(_SHARED.split())

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

HEADING = "**Key points on {w}**"
ASSERTIONS: tuple[str, ...] = (
    "This is definitely the right approach.",
    "Without any doubt, this settles the matter.",
    "I am absolutely certain of all this.",
)

DOMAIN_COUNTS: tuple[tuple[str, str, int], ...] = (
    ("CHAT", "human-preference", 235),
    ("CHAT", "general", 108),
    ("CHAT", "Factuality", 44),
    ("CHAT", "Focus", 22),
    ("CHAT", "helpful", 13),
    ("CODE", "code", 258),
    ("CODE", "mbpp", 13),
    ("STEM", "stem", 167),
    ("STEM", "math", 71),
    ("STEM", "Math", 5),
    ("STEM", "mmlu-pro", 5),
    ("STEM", "gpqa", 2),
    ("IF", "ifeval", 101),
    ("IF", "Precise IF", 23),
    ("SAFETY", "harmlessness", 45),
    ("SAFETY", "Safety", 35),
)
"""RubricBench's groups, fine domains and counts; the simulated test file keeps their proportions."""
