"""What a simulated model writes besides verdicts: rubrics for a pair, damaged responses, new responses."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.simulation.catalogue import ASSERTIONS, GENERIC
from svr_async.simulation.judge import HEADS, JudgeModel
from svr_async.simulation.world import REPHRASED, WORD, PromptKind, World, draw, draw_bytes, uniform

Row = dict[str, Any]

MAX_RUBRICS = 6
MIN_RUBRICS = 2
VARIANT_SHARE = 0.35  # share of proposed rubrics with another beginning than the usual
GENERIC_CHANCE = 0.2  # share of proposals that come with a generic rubric
OVERLOOKED = 0.12  # share of differences that an inducer misses
MISSED, MISTAKEN = 0.1, 0.02  # of repeated criteria, the share not recognised; of all, the share wrongly recognised


class Author:
    """A model as writer. Everything it writes is a pure function of (seed, model, shown texts)."""

    def __init__(self, world: World, model: JudgeModel) -> None:
        self.world = world
        self._key = draw_bytes(world.seed, model.name, "author")

    def induce(self, prompt: str, chosen: str, rejected: str | None) -> list[Row]:
        """Propose 2 to 6 rubrics that favour chosen over rejected; without rejected, that describe chosen.

        Attributes that do not matter to the prompt's type are proposed as readily as those that do.
        """
        good = self.world.read_response(chosen)
        bad = None if rejected is None else self.world.read_response(rejected)
        base = draw_bytes(self._key, self.world.read_prompt(prompt).digest, good.digest, bad.digest if bad else b"")
        shown = good.met & ~(bad.met if bad else 0)
        every = range(len(self.world.criteria))
        seen = [n for n in every if shown >> n & 1 and draw(base, "seen", n) >= OVERLOOKED]
        seen.sort(key=lambda number: draw(base, "order", number))
        kind = self._kind(prompt)
        rows = [self._criterion_row(base, kind, number) for number in seen]
        if draw(base, "generic") < GENERIC_CHANCE:
            rows = [*rows[: MAX_RUBRICS - 1], _generic_row(base, 0)]
        if len(rows) < MIN_RUBRICS:  # too few differences: a model then mentions words of the preferred response
            mentions = [
                f'The response mentions the word "{word}".' for word in _novel_words(base, chosen, rejected or "")
            ]
            grounding = "The word occurs in the preferred response alone."
            rows += [_row("coverage", "minor", rubric, grounding) for rubric in mentions[:2]]
        rows += [_generic_row(base, slot) for slot in range(1, MIN_RUBRICS - len(rows) + 1)]
        return rows[:MAX_RUBRICS]

    def _kind(self, prompt: str) -> PromptKind | None:
        number = self.world.read_prompt(prompt).kind
        return None if number is None else self.world.kinds[number]

    def _criterion_row(self, base: bytes, kind: PromptKind | None, number: int) -> Row:
        """Propose a criterion: its importance is likelier to be high if it is heavy, its wording varies."""
        drawn, criterion = draw_bytes(base, "row", number), self.world.criteria[number]
        share = 0.0
        if kind is not None and number in kind.cares:
            share = kind.weights[kind.cares.index(number)] / max(kind.weights)
        guess = 0.5 * share + uniform(drawn, 2)
        importance = "critical" if guess > 1.0 else "major" if guess > 0.45 else "minor"
        varied = uniform(drawn, 0) < VARIANT_SHARE
        head = _pick(HEADS[1:], uniform(drawn, 1)) if varied else HEADS[0]
        rubric = f"{head} {_pick(criterion.predicates, uniform(drawn, 3))}."
        return _row(criterion.facet, importance, rubric, "Only the preferred response does this.")

    def probe(self, prompt: str, chosen: str) -> str:
        """Write an alternative close to the chosen response that lacks one or two things that matter."""
        kind = self._kind(prompt)
        digests = (self.world.read_prompt(prompt).digest, self.world.read_response(chosen).digest)
        drawn = draw_bytes(self._key, "probe", *digests)
        known = [self.world.criteria[number] for number in (kind.cares if kind else ())]
        met = sorted((one for one in known if one.met in chosen), key=lambda one: draw(drawn, one.met))
        assertion = _pick(ASSERTIONS, uniform(drawn, 1))
        if not met:
            words = chosen.split(" ")
            return " ".join([*words[: max(1, len(words) // 2)], assertion])
        text = chosen
        for criterion in met[: 1 + int(uniform(drawn, 0) * 2)]:
            text = text.replace(criterion.met, criterion.unmet)
        return f"{text}\n\n{assertion}"

    def rephrase(self, prompt: str, rubric: str) -> str:
        """Adapt a rubric to the prompt by naming its type; unchanged without a type."""
        kind = self._kind(prompt)
        return rubric if kind is None else f"{REPHRASED}{kind.topic.name}: {rubric}"

    def same_criterion(self, known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
        """Say which listed criterion each new one repeats; some repetitions are missed, a few answers are wrong."""
        listed, answers = dict(known), dict[str, str | None]()
        for label, text in new.items():
            drawn = draw_bytes(self._key, "same criterion", text)
            number = self.world.read_rubric(text).criterion
            same = [one for one, other in listed.items() if self.world.read_rubric(other).criterion == number]
            others = sorted(set(listed) - set(same))
            answers[label] = same[0] if same and number is not None and uniform(drawn, 0) >= MISSED else None
            if others and uniform(drawn, 1) < MISTAKEN:
                answers[label] = _pick(others, uniform(drawn, 2))
            listed[label] = text
        return answers

    def respond(self, prompt: str, key: str) -> str:
        """Answer a prompt: a response of the world if its type is known, else a few sentences on its words."""
        rng = random.Random(draw_bytes(self._key, "respond", key, 0))  # noqa: S311  (a planted world)
        number = self.world.read_prompt(prompt).kind
        if number is not None:
            return self.world.write_response(rng, number)
        words = sorted(set(WORD.findall(prompt.casefold()))) or ["this"]
        return " ".join(
            f"As to {rng.choice(words)}, it goes with {rng.choice(words)}." for _ in range(rng.randint(3, 9))
        )


def _pick(options: Sequence[str], place: float) -> str:
    """Return the option at a place in [0, 1)."""
    return options[int(place * len(options))]


def _row(facet: str, importance: str, rubric: str, grounding: str) -> Row:
    return {"facet": facet, "importance": importance, "rubric": rubric, "grounding": grounding}


def _generic_row(base: bytes, slot: int) -> Row:
    drawn = draw_bytes(base, "generic", slot)
    importance = _pick(("critical", "major", "minor"), uniform(drawn, 0))
    rubric = _pick(GENERIC, uniform(drawn, 1))
    return _row("style", importance, rubric, "The preferred response makes a better impression.")


def _novel_words(base: bytes, chosen: str, rejected: str) -> list[str]:
    """Return words of five letters and more that only the chosen response has, in a drawn order."""
    other = set(WORD.findall(rejected.casefold()))
    words = {word for word in WORD.findall(chosen.casefold()) if len(word) >= 5 and word not in other}
    return sorted(words, key=lambda word: draw(base, word))
