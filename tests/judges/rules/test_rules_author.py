"""The rules author and its damage: deterministic, and worse in a way that can be seen."""

from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.judges.rules.author import (
    DAMAGES,
    RulesAuthor,
    break_code,
    change_a_number,
    cut_short,
    damaged,
    drop_an_item,
    drop_the_end,
    repeat_itself,
)
from svr_async.judges.rules.judge import view_of, view_of_prompt
from svr_async.judges.rules.registry import bound

RICH = (
    "Bake it for 40 minutes. Let it rest. Then slice it. Serve it warm with butter and a little salt on top.\n\n"
    "- flour\n- water\n- salt\n\n```python\nprint(sum([1, 2]))\n```\n\nThat is all."
)
PAIR = PreferencePair(
    id="p", prompt=user_prompt("List three things as bullets."), chosen="- tea\n- milk\n- honey", rejected="Tea."
)


def test_each_damage_does_what_it_says() -> None:
    """An item less, a number more, a bracket gone, the end gone, the beginning twice."""
    assert "- salt" not in drop_an_item(RICH)
    assert change_a_number("Take 3 eggs, or 9.") == "Take 3 eggs, or 10."
    assert "[1, 2])\n" in break_code(RICH)
    assert RICH.startswith(cut_short(RICH))
    assert not drop_the_end(RICH).endswith("That is all.")
    assert repeat_itself(RICH).count("Let it rest.") == 2


@given(text=st.text(max_size=300) | st.sampled_from([RICH, "a " * 20, "1", "- a\n" * 4]), name=st.text(max_size=5))
@settings(deadline=None, max_examples=150)
def test_damage_is_total_and_depends_on_text_and_id_alone(text: str, name: str) -> None:
    """Any text is damaged the same way twice, or comes back as it was where no kind applies."""
    first = damaged(text, name)
    assert first == damaged(text, name)
    assert (first == text) == all(damage(text) == text for damage in DAMAGES)


def test_pairs_get_different_damage() -> None:
    """Which damage is done depends on the id of the pair."""
    assert len({damaged(RICH, f"p{number}") for number in range(60)}) == len(DAMAGES)


async def test_the_author_proposes_what_holds_for_the_chosen_response_only() -> None:
    """Each rubric's check passes the chosen response and fails the rejected one; the same list every time."""
    author = RulesAuthor()
    found = (await author.induce(PAIR)).value
    assert found
    assert (await author.induce(PAIR)).value == found
    prompt = view_of_prompt(PAIR.prompt)
    for rubric in found:
        assert rubric.check is not None
        good, bad = (bound(rubric.check)(prompt, view_of(text)) for text in (PAIR.chosen, PAIR.rejected))
        assert good is not None
        assert good.passed
        assert bad is not None
        assert not bad.passed
    described = (await author.induce(PAIR, contrastive=False)).value
    assert described is not None
    assert set(found) < set(described)
