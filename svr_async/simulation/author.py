"""What a simulated model writes besides verdicts: rubrics for a pair, damaged responses, fresh responses."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.simulation.draws import draw, draw_bytes, uniform
from svr_async.simulation.models import JudgeModel
from svr_async.simulation.planted import PlantedWorld, PromptKind
from svr_async.simulation.readings import REPHRASED, WORD, PromptReading, ResponseReading, likeness
from svr_async.simulation.topics import ASSERTIONS

Row = dict[str, Any]

MAX_RUBRICS = 6
MIN_RUBRICS = 2
GENERIC_CHANCE = 0.2  # share of proposals that come with a generic one
MISSED, MISTAKEN = 0.1, 0.02  # shares of criteria: a repetition not seen, one seen where there is none
OVERLOOKED = 0.12  # share of differences that an inducer does not notice
NEAR_COPY = 0.8  # share of sentences in common from which on no difference is inconspicuous


class Author:
    """A model as writer. Everything it writes is a pure function of (seed, model, what it was shown)."""

    def __init__(self, world: PlantedWorld, model: JudgeModel) -> None:
        self.world = world
        self._language = world.language
        self._key = draw_bytes(world.seed, model.name, "author")

    def induce(self, prompt: str, chosen: str, rejected: str | None) -> list[Row]:
        """Propose 2 to 6 rubrics that tell chosen from rejected; without rejected, that describe chosen.

        An attribute that the prompt's type does not care about is proposed as readily as one that it does.
        """
        read, good = self._language.read_prompt(prompt), self._language.read_response(chosen)
        bad = self._language.read_response(rejected) if rejected is not None else None
        base = draw_bytes(self._key, read.digest, good.digest, bad.digest if bad else b"")
        shown = good.met & ~(bad.met if bad else 0)
        subtle = self.world.subtle if rejected is None or likeness(chosen, rejected) < NEAR_COPY else frozenset[int]()
        seen = [n for n in range(len(self._language.everything)) if shown >> n & 1 and self._sees(base, n, n in subtle)]
        seen.sort(key=lambda number: draw(base, "order", number))
        rows = [self._criterion_row(base, self.world.kind_of(read), number) for number in seen]
        if draw(base, "generic") < GENERIC_CHANCE:
            rows = [*rows[: MAX_RUBRICS - 1], self._generic_row(base, 0)]
        if len(rows) < MIN_RUBRICS:
            rows += self._makeshift(base, read, good, (chosen, rejected or ""))
        slot = 1
        while len(rows) < MIN_RUBRICS:
            rows.append(self._generic_row(base, slot))
            slot += 1
        return rows[:MAX_RUBRICS]

    def _makeshift(self, base: bytes, read: PromptReading, good: ResponseReading, texts: tuple[str, str]) -> list[Row]:
        """Say something where too few differences were seen: a commonplace of the preferred response, or a word of it.

        A model that is asked for differences and sees none presents what both responses do as one.
        """
        common = [n for n in range(self._language.n_criteria, len(self._language.everything)) if good.met >> n & 1]
        if not common:
            return [_mention_row(word) for word in _novel_words(base, *texts)[:2]]
        common.sort(key=lambda number: draw(base, "makeshift", number))
        return [self._criterion_row(base, self.world.kind_of(read), number) for number in common[:2]]

    def _sees(self, base: bytes, number: int, subtle: bool) -> bool:
        chance = max(OVERLOOKED, self.world.overlooked) if subtle else OVERLOOKED
        return draw(base, "seen", number) >= chance

    def _criterion_row(self, base: bytes, kind: PromptKind | None, number: int) -> Row:
        drawn = draw_bytes(base, "row", number)
        return {
            "facet": self._language.everything[number].facet,
            "importance": _importance(kind, number, uniform(drawn, 2)),
            "rubric": self._language.proposal(number, drawn),
            "grounding": "Only the preferred response does this.",
        }

    def _generic_row(self, base: bytes, slot: int) -> Row:
        drawn, generic = draw_bytes(base, "generic", slot), self._language.generic
        return {
            "facet": "style",
            "importance": ("critical", "major", "minor")[int(uniform(drawn, 0) * 3)],
            "rubric": generic[int(uniform(drawn, 1) * len(generic))],
            "grounding": "The preferred response makes a better impression.",
        }

    def probe(self, prompt: str, chosen: str) -> str:
        """Write an alternative close to the chosen response that lacks one or two things which matter."""
        read = self._language.read_prompt(prompt)
        drawn = draw_bytes(self._key, "probe", read.digest, self._language.read_response(chosen).digest)
        kind = self.world.kind_of(read)
        known = [self._language.everything[number] for number in (kind.cares if kind else ())]
        met = [criterion for criterion in known if criterion.met in chosen]
        if not met:
            return _shorten(chosen, drawn)
        met.sort(key=lambda criterion: draw(drawn, criterion.met))
        text = chosen
        for criterion in met[: 1 + int(uniform(drawn, 0) * 2)]:
            text = text.replace(criterion.met, criterion.unmet)
        return f"{text}\n\n{_assertion(drawn)}"

    def rephrase(self, prompt: str, rubric: str) -> str:
        """Put a rubric in words that name the prompt's type; as it is where the prompt has none."""
        kind = self.world.kind_of(self._language.read_prompt(prompt))
        return rubric if kind is None else f"{REPHRASED}{kind.topic.name}: {rubric}"

    def same_criterion(self, known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
        """Say which listed criterion each new one repeats: the truth, missed at times and rarely mistaken."""
        listed, said = dict(known), dict[str, str | None]()
        for label, text in new.items():
            drawn = draw_bytes(self._key, "same criterion", text)
            number = self._language.read_rubric(text).criterion
            same = [one for one, other in listed.items() if self._language.read_rubric(other).criterion == number]
            others = sorted(set(listed) - set(same))
            said[label] = same[0] if same and number is not None and uniform(drawn, 0) >= MISSED else None
            if others and uniform(drawn, 1) < MISTAKEN:
                said[label] = others[int(uniform(drawn, 2) * len(others))]
            listed[label] = text
        return said

    def respond(self, prompt: str, key: str, index: int) -> str:
        """Answer a prompt: a response of the world where its type is known, else a few sentences on its words."""
        read = self._language.read_prompt(prompt)
        rng = random.Random(draw_bytes(self._key, "respond", key, index))  # noqa: S311  (a planted world)
        if read.kind is not None:
            return self.world.write_response(rng, read.kind)
        words = sorted(set(WORD.findall(prompt.casefold()))) or ["this"]
        return " ".join(
            f"As to {rng.choice(words)}, it goes with {rng.choice(words)}." for _ in range(rng.randint(3, 9))
        )


def _importance(kind: PromptKind | None, number: int, drawn: float) -> str:
    """Return a guess at the importance: a little likelier to be high where the weight is."""
    share = 0.0
    if kind is not None and number in kind.cares:
        share = kind.weights[kind.cares.index(number)] / max(kind.weights)
    guess = 0.5 * share + drawn
    return "critical" if guess > 1.0 else "major" if guess > 0.45 else "minor"


def _mention_row(word: str) -> Row:
    return {
        "facet": "coverage",
        "importance": "minor",
        "rubric": f'The response mentions the word "{word}".',
        "grounding": "The word occurs in the preferred response alone.",
    }


def _novel_words(base: bytes, chosen: str, rejected: str) -> list[str]:
    """Return words of five letters and more that only the chosen response has, in a drawn order."""
    other = set(WORD.findall(rejected.casefold()))
    words = {word for word in WORD.findall(chosen.casefold()) if len(word) >= 5 and word not in other}
    return sorted(words, key=lambda word: draw(base, word))


def _shorten(text: str, drawn: bytes) -> str:
    words: Sequence[str] = text.split(" ")
    return " ".join([*words[: max(1, len(words) // 2)], _assertion(drawn)])


def _assertion(drawn: bytes) -> str:
    return ASSERTIONS[int(uniform(drawn, 1) * len(ASSERTIONS))]
