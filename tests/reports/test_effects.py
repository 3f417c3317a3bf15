"""What a rubric did is counted from the stored contributions by leaving it out, by hand-made items."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from svr_async.evaluation.items import Item, RubricRow, grouped
from svr_async.evaluation.rubric_effects import RubricEffect, RubricEffects, rubric_effects
from svr_async.reports.effects import deciding, effects_tables, notes_of

Parts = Sequence[tuple[str, float | None]]


def made(
    key: str, parts: Parts, *, gold: str | None = "A", domain: str = "chat", margin: float | None = None, item: str = ""
) -> Item:
    """Return an item of rubrics with contributions, None where the judge said nothing; its margin is their sum."""
    rows = tuple(
        RubricRow(
            id=name, text=f"Rubric {name}", alpha=1.0, weight=1.0, importance=1.0, filler=False, a="pass", b="fail",
            better="A", delta=value, contribution=value or 0.0, shown="ab",
        )
        for name, value in parts
    )  # fmt: skip
    total = round(sum(value or 0.0 for _, value in parts), 9) if margin is None else margin
    predicted = "A" if total > 0 else "B" if total < 0 else None
    return Item(
        id=key, item=item or key, domain=domain, subset="", order="ab", outcome="scored" if total else "tie",
        predicted=predicted, gold=gold, correct=None if gold is None else predicted == gold, margin=total, margins={},
        rubrics=rows, flags=(), detail="", requests=(),
    )  # fmt: skip


def effects_of(items: Sequence[Item]) -> dict[str, RubricEffect]:
    """Return the effects in items by the rubric's id."""
    return {one.id: one for one in rubric_effects(grouped(items, "domain")).rubrics}


def test_a_rubric_saves_what_is_wrong_without_it_and_causes_what_is_right_without_it() -> None:
    """Right with it and wrong, or tied, without: saved; wrong with it and right without: an error, named by its id."""
    found = effects_of(
        [
            made("saved", [("x", 1.0), ("y", -0.5)]),  # without x: B, wrong
            made("tied", [("x", 1.0)]),  # without x: a tie, which is not right
            made("caused", [("x", -1.0), ("y", 0.5)]),  # without x: A, right
            made("idle", [("x", 0.25), ("y", 2.0)]),  # A either way
            made("lost", [("x", -0.25), ("y", -2.0)]),  # B either way
        ]
    )

    total = found["x"].total
    assert (total.used, total.leaned, total.right) == (5, 5, 3)
    assert (total.saved, total.errors, total.net) == (2, ["caused"], 1)
    assert (found["y"].total.saved, found["y"].total.errors) == (0, [])
    assert total.accuracy == pytest.approx(0.6)


def test_domains_and_runs_are_groups_of_the_same_numbers() -> None:
    """By group the counts add up to the total, under the names that were given."""
    items = [
        made("1", [("x", 1.0)], domain="code"),
        made("2", [("x", -1.0), ("y", 0.5)], domain="chat"),
        made("3", [("x", 1.0)], domain="chat"),
    ]
    one = effects_of(items)["x"]

    assert list(one.groups) == ["chat", "code"]
    assert {name: tally.net for name, tally in one.groups.items()} == {"chat": 0, "code": 1}
    assert sum(tally.used for tally in one.groups.values()) == one.total.used == 3
    runs = rubric_effects({"first": items, "second": items[:1]})
    assert runs.groups == ("first", "second")
    assert runs.rubrics[0].total.net == 2


def test_no_net_effect_is_told_where_the_judge_names_the_winner() -> None:
    """A margin that is not the sum of contributions follows from no rubric; how often one was right is still shown."""
    found = rubric_effects({"chat": [made(str(n), [("x", 0.5)], margin=1.0) for n in range(4)]})

    assert (found.n, found.unsummed, found.summed) == (4, 4, False)
    assert found.rubrics[0].total.accuracy == 1.0
    assert found.to_json()[0]["net"] is None
    (table,) = effects_tables(found, "made")
    assert table.heads == ("rubric", "used", "right")
    assert "named the winner itself" in " ".join(notes_of(found))


def test_chance_is_taken_into_account_over_all_rubrics_and_prompts() -> None:
    """Twelve saved prompts are beyond chance; twelve pairs of one prompt are one witness; two rubrics need more."""
    many = [made(str(n), [("x", 1.0)]) for n in range(12)]
    same = [made(str(n), [("x", 1.0)], item="prompt") for n in range(12)]
    alone = effects_of(many)["x"]
    together = effects_of([made(str(n), [("x", 1.0)]) for n in range(12)] + [made("z", [("z", 1.0)])])["x"]

    assert alone.beyond_chance
    assert effects_of(same)["x"].p_holm == pytest.approx(1.0)
    assert alone.p_holm is not None
    assert together.p_holm == pytest.approx(2 * alone.p_holm)
    assert effects_of([made("idle", [("x", 0.1), ("y", 1.0)])])["x"].p_holm is None


def test_the_best_and_the_worst_are_shown_and_what_one_pair_alone_used_is_not() -> None:
    """The net effect sorts; in between are the others; the table says how many of how many and what columns mean."""
    found = _many()
    assert [one.id for one in deciding(found, best=1, worst=1)] == ["good", "bad"]
    (table,) = effects_tables(found, "made", best=1, worst=1)
    assert table.caption == "made: 2 of 4 rubrics, the best net effect first"
    assert [row[3] for row in table.rows] == ["+3", "−3"]
    assert table.rows[0][2].startswith("100.0\u00a0% (")
    assert any(note.startswith("Net:") for note in table.notes)
    assert next(effects_tables(found, "made", width=80)).heads == ("rubric", "used", "right", "net")
    assert not list(effects_tables(rubric_effects({}), "made"))


def _many() -> RubricEffects:
    items = [made(f"g{n}", [("good", 1.0), ("idle", -0.1)]) for n in range(3)]
    items += [made(f"b{n}", [("bad", -1.0), ("idle", 0.1)]) for n in range(3)]
    return rubric_effects({"chat": [*items, made("own", [("own", 1.0)])]})
