"""The registry of methods: an unknown one is refused, and each states what a run has to know of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from svr_async.core.rubric import Rubric
from svr_async.errors import UsageError
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import choose_method, prepare
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.methods import registry
from svr_async.scoring.methods.registry import MODULES, NAMES, Facts, Parts, Recipe, find_recipe, read_options
from svr_async.scoring.methods.rrd import RrdOptions
from svr_async.scoring.methods.simple import Direct

ONE = Rubric(text="Is it one?")
BANK = RubricBank(rubrics=(BankRubric(rubric=ONE, weight=0.5),))


def settings(**values: Any) -> EvalSettings:
    """Return the settings of an evaluation."""
    return EvalSettings(benchmark="pairs", **values)


def made(name: str, **parts: Any) -> Any:
    """Make a method of all parts that it takes."""
    whole: dict[str, Any] = {"bank": BANK, "rubrics": ((ONE, 2.0),)}
    recipe = find_recipe(name)
    return recipe.make(name, Parts(**({part: whole[part] for part in recipe.takes if part in whole} | parts)))


@pytest.mark.parametrize(("name", "hint"), [("dirct", "did you mean direct?"), ("zzz", "choose from svr, uniform")])
def test_an_unknown_method_is_an_error(name: str, hint: str) -> None:
    """A method that there is not is never taken for another; the ones there are stand in the same line."""
    with pytest.raises(UsageError, match=f"unknown method '{name}'") as refused:
        choose_method(settings(method=name))
    assert hint in refused.value.one_line()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_method_of_that_name(name: str) -> None:
    """What the registry names exists, calls itself so, and its identity is what JSON has, apart from the run's own."""
    method = made(name)
    assert method.name == name
    identity = orjson.loads(orjson.dumps(method.facts.identity))
    run = prepare(EvalSettings(benchmark="rubricbench", sample=True, method="longest")).identity
    assert identity.keys().isdisjoint(run.keys() - {"rubrics", "bank"})


def test_identities_are_those_that_digests_were_made_of() -> None:
    """A bank's method is its digest and settings, a list its texts and weights, in the very shape of earlier runs."""
    bank = {"bank": [BANK.digest, {"top_k": 6, "selection_pool": 18, "filler_weight": 1.0}]}
    assert made("svr").facts.identity == made("uniform").facts.identity == bank
    assert made("pointwise", rubrics=()).facts.identity == bank
    assert made("fixed").facts.identity == {"rubrics": [["Is it one?", 2.0]]}
    assert made("pointwise", bank=None).facts.identity == {"rubrics": [["Is it one?", 2.0]]}
    assert made("direct").facts.identity == {}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "svr"}, "--method svr needs --bank DIR"),
        ({"method": "uniform"}, "--method uniform needs --bank DIR"),
        ({"method": "fixed"}, "--method fixed needs --rubrics FILE — one rubric a line"),
        ({"method": "direct", "bank": "b"}, "exclude each other — svr, uniform and pointwise use a bank"),
        ({"bank": "b", "rubrics": Path("r")}, "--bank and --rubrics exclude each other"),
        ({"method": "oracle", "rubrics": Path("r")}, "leave one out; fixed and pointwise use them"),
        ({"method": "pointwise", "bank": "b", "rephrase": True}, "give --bank, with --method svr or uniform"),
        ({"rephrase": True}, "--rephrase rewrites the rubrics of a bank"),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_they_are_read(given: dict[str, Any], says: str) -> None:
    """What a method needs and what it cannot use is one line, and names the methods that can."""
    with pytest.raises(UsageError) as refused:
        choose_method(settings(**given))
    assert says in refused.value.one_line()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("samples=0", "--method rrd --option samples=0: Expected `int` >= 1 - at `$.samples`"),
        ("top_p=x", "--method rrd --option top_p=x: Expected `float`"),
        ("sample=3", "has no option 'sample', as NAME=VALUE — did you mean samples?"),
        ("samples", "as NAME=VALUE"),
    ],
)
def test_a_wrong_option_is_one_line(given: str, says: str) -> None:
    """Name, what is expected, and the value; right values have the types of the record."""
    with pytest.raises(UsageError) as refused:
        read_options(RrdOptions, "rrd", [given])
    assert says in refused.value.one_line()
    assert read_options(RrdOptions, "rrd", ["samples=3", "samplers=a, b"]) == RrdOptions(samples=3, samplers=("a", "b"))


def test_a_new_method_is_one_file_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a recipe and its name in the registry are all: nothing else has to know the method."""
    file = ModuleType("svr_async.scoring.methods.coin")
    file.RECIPES = {"coin": Recipe(make=lambda name, _: Direct(name))}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, file.__name__, file)
    monkeypatch.setitem(MODULES, "coin", "coin")
    monkeypatch.setattr(registry, "NAMES", (*NAMES, "coin"))
    method = choose_method(settings(method="coin"))
    assert (method.name, method.facts) == ("coin", Facts())
