"""Which method settings name, with the bank or the rubrics that it uses."""

from __future__ import annotations

from dataclasses import replace

from svr_async.errors import UsageError
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.judges.open_judge import OpenJudge
from svr_async.judges.rubric_file import load_rubric_file
from svr_async.scoring.methods.contract import Method, Needed, Part, Parts, Recipe
from svr_async.scoring.methods.options import read_options
from svr_async.scoring.methods.registry import find_recipe, names_that_take

LACKS: dict[Needed, tuple[str, str]] = {
    "bank": ("--bank DIR", "svr train makes one; without a bank the rules judge uses its general checks"),
    "rubrics": ("--rubrics FILE", "one rubric a line"),
}


def choose_method(settings: EvalSettings) -> Method:
    """Return the method that settings name; UsageError for an unknown one, and for parts that it lacks or cannot use.

    One that rephrases can be asked after `rephrasing` only.
    """
    name = settings.method or ("svr" if settings.bank else "fixed" if settings.rubrics else "vanilla")
    recipe = find_recipe(name)
    _refuse_misfits(settings, name, recipe)
    bank = None
    if settings.bank is not None:
        from svr_async.scoring.bank import RubricBank

        bank = RubricBank.load(settings.bank, offline=settings.limits.offline)
    rubrics, by_points = load_rubric_file(settings.rubrics) if settings.rubrics else ((), False)
    options = read_options(recipe.options, name, settings.option)
    parts = Parts(bank=bank, top_k=settings.top_k, rubrics=rubrics, rephrase=settings.rephrase, options=options)
    return recipe.make(name, replace(parts, by_points=by_points))


def _refuse_misfits(settings: EvalSettings, name: str, recipe: Recipe) -> None:
    if settings.rephrase and (settings.bank is None or "rephrase" not in recipe.takes):
        hint = f"give --bank, with --method {' or '.join(names_that_take('rephrase'))}"
        raise UsageError("--rephrase rewrites the rubrics of a bank", hint=hint)
    if settings.bank is not None and (settings.rubrics is not None or "bank" not in recipe.takes):
        other = "--rubrics" if settings.rubrics is not None else f"--method {name}"
        raise UsageError(f"--bank and {other} exclude each other", hint=f"{_names('bank')} use a bank")
    given: dict[Needed, object] = {"bank": settings.bank, "rubrics": settings.rubrics}
    if recipe.needs is not None and given[recipe.needs] is None:
        flag, hint = LACKS[recipe.needs]
        raise UsageError(f"--method {name} needs {flag}", hint=hint)
    if settings.rubrics is not None and "rubrics" not in recipe.takes:
        hint = f"leave one out; {_names('rubrics')} use them"
        raise UsageError(f"--method {name} does not use --rubrics {settings.rubrics}", hint=hint)


def _names(part: Part) -> str:
    *first, last = names_that_take(part)
    return f"{', '.join(first)} and {last}"


def rephrasing(method: Method, judge: OpenJudge) -> Method:
    """Return the method of a bank with the judge's model to fit its rubrics to prompts; UsageError without a model."""
    from svr_async.scoring.rephraser import rephraser_of

    use = method.facts.bank
    assert use is not None
    return use.with_rephraser(rephraser_of(judge.author, judge.judge.name))
