"""Which method the flags of `svr eval` name, with the bank or the rubrics that it uses."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from svr_async.commands.eval.flags import EvalFlags
from svr_async.errors import UsageError
from svr_async.judges.opening import OpenJudge
from svr_async.judges.rubric_file import load_rubric_file
from svr_async.scoring.methods import CONTENT_BLIND, ContentBlind, Fixed, Method, Oracle, Pointwise, SelfRubric, Vanilla

REPHRASED = ("svr", "uniform")  # the methods whose rubrics can be fitted to a prompt


def choose_method(flags: EvalFlags) -> Method:
    """Return the method that the flags name."""
    name = flags.method or ("svr" if flags.bank else "fixed" if flags.rubrics else "vanilla")
    if flags.rephrase and (flags.bank is None or name not in REPHRASED):
        raise UsageError("--rephrase rewrites the rubrics of a bank", hint="give --bank, with --method svr or uniform")
    if flags.bank is not None:
        return _bank_method(flags, flags.bank, name)
    if name in {"svr", "uniform"}:
        raise UsageError(
            f"--method {name} needs --bank DIR",
            hint="svr train makes one; without a bank the rules judge uses its general checks",
        )
    rubrics = load_rubric_file(flags.rubrics) if flags.rubrics else ()
    if rubrics and name not in {"fixed", "pointwise"}:
        raise UsageError(f"--method {name} does not use --rubrics", hint="leave one out; fixed and pointwise use them")
    if name == "fixed":
        if not rubrics:
            raise UsageError("--method fixed needs --rubrics FILE", hint="one rubric a line")
        return Fixed(rubrics)
    if name in CONTENT_BLIND:
        return ContentBlind(name)
    methods: dict[str, Method] = {"self-rubric": SelfRubric(), "oracle": Oracle(), "pointwise": Pointwise(rubrics)}
    return methods.get(name, Vanilla())


def _bank_method(flags: EvalFlags, bank: str, name: str) -> Method:
    from svr_async.scoring.bank import RubricBank  # noqa: PLC0415  (only a bank needs NumPy's selector)
    from svr_async.scoring.bank_hub import locate_bank  # noqa: PLC0415
    from svr_async.scoring.svr import Svr, SvrPointwise, open_chooser  # noqa: PLC0415

    if flags.rubrics is not None or name not in {"svr", "uniform", "pointwise"}:
        other = "--rubrics" if flags.rubrics is not None else f"--method {name}"
        raise UsageError(f"--bank and {other} exclude each other", hint="svr, uniform and pointwise use a bank")
    held = RubricBank.load(locate_bank(bank, offline=flags.offline))
    chooser = open_chooser(held, top_k=flags.top_k, uniform=name == "uniform")
    return SvrPointwise(chooser) if name == "pointwise" else Svr(chooser, name + "+rephrase" * flags.rephrase)


def rephrasing(method: Method, judge: OpenJudge) -> Method:
    """Return the method of a bank with the judge's model to fit its rubrics to prompts; UsageError without a model."""
    from svr_async.scoring.rephrasing import rephraser_of  # noqa: PLC0415
    from svr_async.scoring.svr import Svr  # noqa: PLC0415

    assert isinstance(method, Svr)
    return replace(method, rephraser=rephraser_of(judge.author, judge.judge.name))


def bank_identity(method: Method) -> list[Any] | None:
    """Return what of a bank can change an item: its digest and how many rubrics are used; None without a bank."""
    chooser = getattr(method, "chooser", None)
    return None if chooser is None else [chooser.bank.digest, asdict(chooser.settings)]
