"""Write the pairs that `make demo` trains on: made from templates of our own, always the same bytes.

    python benchmarks/make_demo_pairs.py runs/demo        # writes train.jsonl and test.jsonl there

Eight kinds of request, each with its own idea of a better answer: steps want a numbered list, a text message wants to
be short and casual, and so on. The worse answer misses that, and is the longer one in half of the kinds. One pair in
twelve has its answers exchanged, as people also err. Every fifth subject is held out. The pairs show what the program
does; what a judge is worth on real requests they cannot show.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Draw = Callable[[str, Sequence[str]], str]
HELD_OUT = 5  # every fifth subject
WRONG = 12  # one pair in this many has its answers exchanged


@dataclass(frozen=True)
class Ask:
    """What an answer is made from: the subject, a fact about it, and a chooser of words."""

    subject: str
    fact: str
    draw: Draw


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of request: subjects (name, a fact about it), ways to ask, and how to answer well and badly."""

    name: str
    subjects: tuple[tuple[str, str], ...]
    asks: tuple[str, ...]
    better: Callable[[Ask], str]
    worse: Callable[[Ask], str]


def drawn(key: str) -> Draw:
    """Return a chooser that depends on the key alone."""

    def draw(what: str, choices: Sequence[str]) -> str:
        number = int.from_bytes(hashlib.sha256(f"{key}/{what}".encode()).digest()[:4], "big")
        return choices[number % len(choices)]

    return draw


def pairs_of(text: str) -> tuple[tuple[str, str], ...]:
    """Read lines of `subject: fact`."""
    lines = (line.partition(":") for line in text.strip().splitlines())
    return tuple((name.strip(), fact.strip()) for name, _, fact in lines)


# ── what an answer is made of ───────────────────────────────────────────────────────────────────────────────────────

ENDS = ("It gets easier each time.", "Take your time with it.", "That is all there is to it.", "Then look once more.")
PADDING = (
    "There is a good deal to be said about this, and opinions have always differed on where one should begin.",
    "Many people have asked the same thing over the years, which goes to show how much it still matters today.",
    "It should be kept in mind that circumstances vary, and what suits one person need not suit the next one at all.",
    "Before going any further, it may help to consider the matter from a distance and to weigh what is at stake.",
)
CARE = ("Ask a pharmacist or a doctor if it lasts.", "If it gets worse, please see a doctor.")


def padded(draw: Draw, text: str, times: int = 2) -> str:
    """Return a text with a number of sentences of padding around it."""
    more = [draw(f"padding {n}", PADDING) for n in range(times)]
    return " ".join([*more[:1], text, *more[1:]])


def steps(ask: Ask) -> str:
    parts = ["Gather what you need.", f"{ask.fact}.", "Check the result."]
    return "\n".join(f"{n}. {part}" for n, part in enumerate(parts, 1)) + f"\n\n{ask.draw('end', ENDS)}"


def table(ask: Ask) -> str:
    first, second = ask.subject.split(" and ")
    one, other = ask.fact.split(" / ")
    return f"| | {first} | {second} |\n|---|---|---|\n| known for | {one} | {other} |\n\n{ask.draw('end', ENDS[:2])}"


def compared(ask: Ask) -> str:
    first, second = ask.subject.split(" and ")
    one, other = ask.fact.split(" / ")
    return f"With {first} it is {one}, whereas with {second} it is {other}."


def code(ask: Ask) -> str:
    name = ask.subject.replace(" ", "_")
    body = f"def {name}(values):\n    # {ask.subject}\n    return {ask.fact}"
    return f"```python\n{body}\n```\n\nCall `{name}` with a list. {ask.draw('end', ENDS)}"


def told_code(ask: Ask) -> str:
    return f"You could write a function for {ask.subject}: it gives back {ask.fact}."


def listened(ask: Ask) -> str:
    question = ask.draw("question", ("Do you want to tell me more?", "How are you now?"))
    return f"I'm so sorry to hear that, {ask.fact}. {question}"


def formal(ask: Ask) -> str:
    opening = f"Dear friend,\n\nI am writing to inform you with regard to {ask.subject}."
    return f"{opening} {ask.draw('padding', PADDING)}\n\nI remain, with the kindest regards,\nYours sincerely"


# ── the kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = (
    Kind(
        name="steps",
        subjects=pairs_of("""
            repot a fern: Lift the fern out and set it into fresh soil
            sharpen a kitchen knife: Draw the blade along the stone at a low angle
            clean a cast iron pan: Rub it with salt and wipe it dry
            patch a bicycle tube: Roughen the rubber and press the patch on
            fold a paper boat: Crease the sheet down the middle
            brew green tea: Let the water cool a little and pour it
            sew on a button: Push the needle up through the cloth
            unblock a sink: Pour hot water and use the plunger
            hang a picture: Mark the height and drive the nail in
            bake flatbread: Knead the dough and let it rest
            wax a wooden table: Spread the wax thinly along the grain
            oil a door hinge: Put a drop of oil on the pin
            pitch a small tent: Lay the floor flat and raise the poles
            descale a kettle: Boil vinegar with water in it
            prune a rose: Cut just above a bud that faces outwards
            polish leather shoes: Work the cream in with a soft cloth
            plant garlic: Press each clove into loose soil
            tune a guitar: Turn each peg until the string agrees
            press flowers: Lay them flat between sheets of paper
            make a candle: Melt the wax and hold the wick straight
        """),
        asks=("What are the steps to {}?", "Walk me through how to {}, step by step.", "How do I {}? Steps, please."),
        better=steps,
        worse=lambda ask: f"To {ask.subject}, {ask.fact[0].lower()}{ask.fact[1:]}.",
    ),
    Kind(
        name="message",
        subjects=pairs_of("""
            being late for dinner: I'm stuck on the tram
            moving the match to Sunday: Sunday's better for me
            the borrowed ladder: I'll bring the ladder back tonight
            a birthday cake: the cake's on me
            feeding the cat: could you feed the cat on Friday
            the lost scarf: your scarf's at my place
            a lift to the station: can't drive you, sorry
            the concert tickets: I've got two tickets
            watering the plants: don't forget the tomatoes
            a picnic in the park: it won't rain, let's go
            the broken lamp: I've broken your lamp, I'm sorry
            a new bakery: you've got to try the rolls
            the choir rehearsal: it's at seven this week
            a spare key: it's under the blue pot
            the boat trip: we're leaving at nine
            a film night: I'll bring the popcorn
            the missing book: I've found your book
            a walk on Saturday: let's meet by the mill
            the football final: they've won, can you believe it
            a phone with no battery: my phone's nearly dead
        """),
        asks=("Write a text message to a friend about {}.", "What could I text my friend about {}? Keep it casual."),
        better=lambda ask: f"Hey! {ask.fact[0].upper()}{ask.fact[1:]} {ask.draw('face', ('🙂', '😅', '🎉'))}",
        worse=formal,
    ),
    Kind(
        name="sentence",
        subjects=pairs_of("""
            a lighthouse: a tower with a lamp that warns ships
            a delta: land that a river builds where it meets the sea
            a compass: a needle that points north
            a sonnet: a poem of fourteen lines
            a glacier: a slow river of ice
            yeast: a tiny fungus that makes dough rise
            a fossil: a trace of life kept in stone
            a fugue: a piece in which voices chase one theme
            a lock on a canal: a chamber that lifts boats
            a mirage: an image bent by hot air
            resin: a sticky sap that seals a tree
            a moat: a ditch of water around a castle
            a quarry: a pit from which stone is cut
            a tide: the sea rising and falling with the moon
            an eclipse: one body in space hiding another
            a hinge: a joint on which a door turns
            a loom: a frame on which cloth is woven
            a pulley: a wheel that turns the pull of a rope
            a cairn: a heap of stones that marks a path
            a metaphor: one thing spoken of as another
        """),
        asks=("In one sentence, what is {}?", "Explain {} in a single sentence."),
        better=lambda ask: f"{ask.subject[0].upper()}{ask.subject[1:]} is {ask.fact}.",
        worse=lambda ask: padded(ask.draw, f"It is {ask.fact}. {ask.draw('end', ENDS)}", 3),
    ),
    Kind(
        name="code",
        subjects=pairs_of("""
            sum of squares: sum(value * value for value in values)
            largest value: max(values)
            even values: [value for value in values if value % 2 == 0]
            reversed copy: values[::-1]
            mean of values: sum(values) / len(values)
            count of zeros: values.count(0)
            sorted copy: sorted(values)
            without repeats: list(dict.fromkeys(values))
            running pairs: list(zip(values, values[1:]))
            first half: values[: len(values) // 2]
            doubled values: [2 * value for value in values]
            spread of values: max(values) - min(values)
            positive values: [value for value in values if value > 0]
            every third: values[::3]
            longest word: max(values, key=len)
            joined words: " ".join(values)
            lengths of words: [len(value) for value in values]
            index of values: dict(enumerate(values))
            any negative: any(value < 0 for value in values)
            flat list: [item for value in values for item in value]
        """),
        asks=("Write a Python function for the {} of a list.", "I need Python code: {} for a list."),
        better=code,
        worse=told_code,
    ),
    Kind(
        name="compare",
        subjects=pairs_of("""
            oak and pine: hard wood / soft wood
            tea and coffee: a mild lift / a strong lift
            trains and buses: own tracks / shared roads
            wool and cotton: warmth / cool wear
            gas and induction: an open flame / a cool top
            violins and cellos: a high voice / a low voice
            rivers and canals: a natural bed / a dug bed
            butter and oil: from milk / from seeds
            brick and timber: slow to warm / quick to build
            cats and dogs: their own ways / company
            ink and graphite: lasting lines / lines that rub out
            skis and snowboards: two boards / one board
            hens and geese: daily eggs / loud alarm
            maps and globes: flat sheets / true shapes
            copper and iron: a red shine / great strength
            rye and wheat: dark bread / light bread
            sail and steam: free wind / burnt coal
            paper and cloth: cheap bags / lasting bags
            clay and sand: wet feet / dry feet
            ferns and mosses: tall fronds / low cushions
        """),
        asks=("Compare {} for me.", "What is the difference between {}? Compare them."),
        better=table,
        worse=compared,
    ),
    Kind(
        name="health",
        subjects=pairs_of("""
            a sore throat: warm drinks and rest often help
            a stiff neck: gentle heat and small movements often help
            a mild burn: cool running water helps
            a blocked nose: salt water and steam can help
            a twisted ankle: rest and a cold pack help
            hiccups: slow sips of water may help
            a dry cough: honey in warm water may soothe it
            a headache: water, rest and a dark room may help
            a wasp sting: a cold cloth eases the swelling
            tired eyes: a pause from the screen helps
            a sunburn: shade and a cool cloth help
            heartburn: smaller meals may help
            chapped lips: a plain balm helps
            a blister: leave it closed and keep it clean
            sore feet: soft shoes and rest help
            a nosebleed: lean forward and press the nostrils
            itchy skin: a mild cream may help
            an upset stomach: plain food and water may help
            poor sleep: regular hours may help
            a cramp: stretch the muscle slowly
        """),
        asks=("What can I do about {}?", "I have {}. Any advice on my health?"),
        better=lambda ask: f"{ask.fact[0].upper()}{ask.fact[1:]}. {ask.draw('care', CARE)}",
        worse=lambda ask: f"{ask.fact[0].upper()}{ask.fact[1:]}! You will certainly be fine!",
    ),
    Kind(
        name="ideas",
        subjects=pairs_of("""
            a rainy afternoon: board games, baking, letters
            a garden party: lanterns, lemonade, croquet
            a school fair: a raffle, a bake stall, a quiz
            leftover rice: fried rice, soup, pudding
            a small balcony: herbs, a bench, fairy lights
            a long train ride: puzzles, music, a novel
            old jam jars: lamps, vases, spice jars
            a quiet evening: a bath, tea, records
            a winter walk: a flask, tracks, a camera
            a first camping trip: a fire, songs, stars
            an empty wall: prints, shelves, a map
            a farewell gift: a photo book, a plant, a mug
            a weekend by the sea: shells, kites, chowder
            spare wool: hats, squares, toys
            a shared office: plants, a tea corner, quiet hours
            an old bicycle: a planter, a cart, parts
            a street party: a long table, music, chalk
            a bare hallway: hooks, a mirror, a rug
            a class trip: a farm, a mill, a museum
            a family album: captions, maps, recipes
        """),
        asks=("Give me some ideas for {}.", "List a few ideas for {}."),
        better=lambda ask: "\n".join(f"- **{part}**" for part in ask.fact.split(", ")),
        worse=lambda ask: padded(ask.draw, f"For {ask.subject} there are {ask.fact}, among other things.", 1),
    ),
    Kind(
        name="feelings",
        subjects=pairs_of("""
            my dog died: losing a dog hurts
            I failed my driving test: that is a hard day
            my best friend moved away: it is lonely at first
            I lost my job: that shakes the ground
            nobody came to my party: that must have stung
            I quarrelled with my brother: quarrels at home weigh heavily
            I am new in town: starting over is tiring
            my team lost the final: you had hoped for it so much
            I have to speak in public tomorrow: nerves come before such a day
            my garden was flooded: all that work under water
            I did not get the part: it is bitter to be passed over
            I miss my grandmother: missing her shows what she was to you
            my letter was never answered: waiting is hard
            I broke a vase that I inherited: it held memories
            my holiday was cancelled: you had looked forward to it
            I was left out at school: being left out hurts
            my cat ran away: not knowing is the worst of it
            I forgot an important date: that feeling is awful
            my plants all froze: what a sad sight
            I made a mistake at work: mistakes keep one awake
        """),
        asks=("I feel sad: {}.", "I just need someone to listen: {}."),
        better=listened,
        worse=lambda ask: (
            f"## Plan\n\n1. Accept the facts.\n2. Make a list of goals.\n3. Move on.\n\n{ask.draw('padding', PADDING)}"
        ),
    ),
)


def rows() -> Iterator[tuple[bool, dict[str, str]]]:
    """Yield (held out, pair) for each subject of each kind and each way to ask."""
    for kind in KINDS:
        for place, (subject, fact) in enumerate(kind.subjects):
            for way, words in enumerate(kind.asks):
                name = f"made-{kind.name}-{place + 1:02d}{'abc'[way]}"
                draw = drawn(name)
                ask = Ask(subject, fact, draw)
                answers = [kind.better(ask), kind.worse(ask)]
                if draw("exchange", [str(n) for n in range(WRONG)]) == "0":
                    answers.reverse()
                row = {"id": name, "prompt": words.format(subject), "chosen": answers[0], "rejected": answers[1]}
                yield place % HELD_OUT == HELD_OUT - 1, {**row, "domain": kind.name}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where train.jsonl and test.jsonl go")
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    made = list(rows())
    for name, held in (("train", False), ("test", True)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for is_held, row in made if is_held is held]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{len(lines)} pairs made from templates in {folder / name}.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
