"""The general checks, with weights, that stand in where there is no bank: what tends to make any answer better.

How the weights were obtained: `benchmarks/paper/general_checks.py` fits them on half of the prompts (picked by hash) of
RMB, a public set of 14.5 thousand preference pairs on helpfulness and harmlessness, by logistic regression on the pair
score of each check. Weights cannot be negative, so each check keeps the direction it was written for; how many there
are is chosen by cross-validation within that half; they are rounded to 0.05, and those below 0.1 dropped. No weight was
chosen by the other half of the prompts, on which the script reports. `helps_when_harmless` is set by hand: the set has
almost no harmless prompts that models refuse, so it cannot speak against refusing too much.
"""

from __future__ import annotations

from functools import cache

from svr_async.core.rubric import Check, CheckValue, Rubric
from svr_async.judges.rules.registry import rubric_for

GENERAL: tuple[tuple[str, dict[str, CheckValue], float], ...] = (
    ("refuses_harm", {}, 1.25),
    ("names_concerns", {}, 0.85),
    ("refusal_of_length", {"n": 20}, 0.75),
    ("keeps_one_script", {}, 0.60),
    ("no_profanity", {}, 0.60),
    ("refusal_of_length", {"n": 40}, 0.60),
    ("brackets_in_code", {}, 0.55),
    ("commented_code", {}, 0.45),
    ("bold", {}, 0.40),
    ("fences_named", {}, 0.40),
    ("no_steps_to_harm", {}, 0.40),
    ("bullet_list", {}, 0.35),
    ("closing_offer", {}, 0.35),
    ("table", {}, 0.35),
    ("developed_when_harmless", {"n": 400}, 0.30),
    ("headings", {}, 0.30),
    ("min_words", {"n": 25}, 0.30),
    ("helps_when_harmless", {}, 0.30),
    ("min_numbers", {"n": 3}, 0.25),
    ("own_words", {}, 0.25),
    ("above_grade", {"n": 8}, 0.20),
    ("max_sentence_words", {"n": 22}, 0.20),
    ("no_repetition", {}, 0.20),
    ("code_when_asked", {}, 0.15),
    ("max_sentence_words", {"n": 18}, 0.15),
    ("min_paragraphs", {"n": 3}, 0.15),
    ("rich_vocabulary", {}, 0.15),
    ("above_grade", {"n": 10}, 0.10),
    ("connected", {}, 0.10),
    ("covers_keywords", {"percent": 50}, 0.10),
    ("covers_keywords", {"percent": 75}, 0.10),
    ("keeps_numbers", {}, 0.10),
    ("link", {}, 0.10),
    ("min_paragraphs", {"n": 6}, 0.10),
    ("no_instant_compliance", {}, 0.10),
    ("refusal_of_length", {"n": 80}, 0.10),
    ("structured", {}, 0.10),
)


@cache
def general_rubrics() -> tuple[tuple[Rubric, float], ...]:
    """Return the general checks as rubrics with their weights, heaviest first."""
    return tuple((rubric_for(Check.of(name, **args)), weight) for name, args, weight in GENERAL)
