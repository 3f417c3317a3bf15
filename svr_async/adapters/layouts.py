"""Where a row of two responses has its parts: told from the names of its columns alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from svr_async.adapters.columns import (
    Two,
    chosen_columns,
    flag_columns,
    further_responses,
    label_columns,
    lower_is_better,
    model_columns,
    one_hot_columns,
    response_columns,
    score_columns,
)
from svr_async.adapters.fields import Fields
from svr_async.adapters.labels import FIRST_IS_1, LOW_IS_FIRST, Labelled, Reading, Verdict, as_flag, as_number

SHP = Two("human_ref_a", "human_ref_b")
HELPSTEER2 = Two("response_1", "response_2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The two columns of the responses, and what says which is better.

    That is one of: a `label` column, with a `fixed` reading where its publisher gives one; a `flag` column, and whether
    it speaks for the first; `hot`, three columns of 0 and 1; `scores`, one column a response. Not `labelled`: the first
    column holds the preferred response, and scores only bear it out. `rivals` are all columns that may be the label
    where there are several, `more` further columns that may be responses.
    """

    two: Two
    label: str = ""
    fixed: Reading | None = None
    flag: tuple[str, bool] | None = None
    hot: tuple[str, str, str] | None = None
    scores: Two | None = None
    names: Two | None = None
    labelled: bool = True
    rivals: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def layout_of(names: tuple[str, ...], told: frozenset[str] = frozenset()) -> Layout | None:
    """Return where these columns have the parts of a pair; None where they hold none. `told`: named by the user."""
    chosen = chosen_columns(names)
    if chosen and {"chosen", "rejected"} & told:
        return Layout(two=chosen, labelled=False)
    given = Two("response_a", "response_b")
    pairs = [given] if told >= set(given) else response_columns(names)
    for two in pairs:
        others = () if told >= set(given) else further_responses(two, names)
        if found := _labelled(two, names, told, chosen, others):
            return found
    return None if chosen is None else Layout(two=chosen, labelled=False, scores=score_columns(chosen, names))


def _labelled(
    two: Two, names: Collection[str], told: frozenset[str], chosen: Two | None, more: tuple[str, ...]
) -> Layout | None:
    """Return the layout of two responses with what says which is better; None where nothing does."""
    names = [name for name in names if name not in (chosen or ())]
    scores, models = score_columns(two, names), model_columns(two, names)
    if two == HELPSTEER2 and "preference_strength" in names and "label" not in told:
        return Layout(two=two, label="preference_strength", fixed=LOW_IS_FIRST, more=more)
    labels = ["label"] if "label" in told else list(label_columns(names, two))
    flags = [] if "label" in told else [(name, side) for name, side in flag_columns(two).items() if name in names]
    hot = None if "label" in told else one_hot_columns(two, names)
    if chosen and not (labels or flags or hot):
        labels = [chosen.first]  # "chosen" beside two responses says which of them, by letter or text
    rivals = (*labels, *(name for name, _ in flags), *((hot[0],) if hot else ()))
    if not rivals and scores is None:
        return None
    return Layout(
        two=two,
        label=labels[0] if labels else "",
        fixed=FIRST_IS_1 if two == SHP and labels == ["labels"] else None,
        flag=flags[0] if flags else None,
        hot=hot,
        scores=scores,
        names=models,
        rivals=rivals if len(rivals) > 1 else (),
        more=more,
    )


def labelled_by(fields: Fields, layout: Layout) -> Labelled:
    """Return a row's label with what it may point at."""
    values: Mapping[str, Any] = fields.row.values
    names = (values.get(layout.names.first), values.get(layout.names.second)) if layout.names else (None, None)
    texts = (values.get(layout.two.first), values.get(layout.two.second))
    return Labelled(fields.value(layout.label), layout.two, texts, names)


def by_flag_column(fields: Fields, name: str, *, speaks_for_first: bool) -> Verdict:
    """Read a column such as a_is_better; RowError where it holds no flag."""
    value = fields.value(name)
    flag = as_flag(value)
    if flag is None and as_number(value) in (0, 1):
        flag = as_number(value) == 1
    if flag is None:
        raise fields.unfit(name, "true, false, 1 or 0", value)
    return Verdict.A if flag is speaks_for_first else Verdict.B


def by_one_hot(fields: Fields, columns: tuple[str, str, str]) -> Verdict:
    """Read a label spread over three columns; RowError where not exactly one of them is 1."""
    told = {Verdict.A: columns[0], Verdict.B: columns[1], Verdict.TIE: columns[2]}
    hot = [
        verdict
        for verdict, column in told.items()
        if fields.has(column) and (as_number(fields.value(column)) == 1 or as_flag(fields.value(column)))
    ]
    if len(hot) != 1:
        raise fields.unfit(columns[0], f"exactly one 1 in {', '.join(columns)}", fields.value(columns[0]))
    return hot[0]


def by_scores(fields: Fields, scores: Two, *, lower: bool | None = None) -> Verdict:
    """Compare two scores, of which the higher is better unless their name or `lower` says otherwise."""
    first, second = (as_number(fields.value(column)) for column in scores)
    if first is None or second is None:
        column = scores.first if first is None else scores.second
        raise fields.unfit(column, "a number", fields.value(column))
    if first == second:
        return Verdict.TIE
    less = lower_is_better(scores) if lower is None else lower
    return Verdict.A if (first < second) is less else Verdict.B
