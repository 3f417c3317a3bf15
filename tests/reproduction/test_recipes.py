"""Recipes: the shipped ones are coherent, what is wrong in a user's own is named in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from svr_async.errors import ConfigError, UsageError
from svr_async.reproduction.plan import addressed, plan_of
from svr_async.reproduction.recipe import chosen, load_recipes
from svr_async.reproduction.settings import ReproSettings, by_name, data_files
from svr_async.reproduction.tables.registry import KINDS

TABLES = {
    "fig:gap", "tab:rubricbench", "tab:rmbenches", "tab:ablation", "fig:training_dynamics", "tab:model_transfer",
    "tab:error_overlap", "tab:domain_net_advantage", "fig:topk_sensitivity", "tab:bank_distribution",
    "tab:bank_examples", "tab:hparams", "fig:overview", "fig:case_complementary", "app:cost",
}  # fmt: skip
GOOD = """
label = "tab:own"
title = "Mine"
kind = "overall"
heads = ["Method", "Model"]
[benchmarks.rubricbench]
[[row]]
names = ["SVR (Ours)", "OSS"]
run = { method = "svr", judge = "oss", bank = "full" }
"""


def test_there_is_a_recipe_for_each_table_and_figure_of_the_paper() -> None:
    """Every label is there, of a kind that somebody builds."""
    recipes = load_recipes()
    assert {recipe.label for recipe in recipes.tables} == TABLES
    assert set(KINDS) - {recipe.kind for recipe in recipes.tables} == {"subsets"}  # of recipes of one's own


def test_what_several_tables_need_is_planned_once() -> None:
    """Runs and banks of all tables are fewer than those of each added up, and none is twice in the plan."""
    recipes = load_recipes()
    plan = plan_of(recipes, recipes.tables)
    assert len(plan.runs) == len(set(plan.runs)) < sum(len(recipe.runs) for recipe in recipes.tables)
    assert [bank.name for bank in plan.banks] == ["full", "no-induction", "no-support", "no-probe", "no-diversity"]
    assert {"gpt-4o", "qwen3-8b", "rubric-arm-proposer"} <= {role.name for role in plan.roles}


def test_tables_are_named_by_label_or_by_its_end() -> None:
    """`tab:ablation`, `ablation` and `all` are understood; anything else names those there are."""
    recipes = load_recipes()
    assert [one.label for one in chosen(recipes, ["ablation", "fig:gap"])] == ["fig:gap", "tab:ablation"]
    assert chosen(recipes, ["all"]) == recipes.tables
    with pytest.raises(ConfigError, match="there is no table 'abl'"):
        chosen(recipes, ["abl"])


def test_recipes_of_ones_own_take_the_shipped_judges_and_banks(tmp_path: Path) -> None:
    """A folder with one table is enough."""
    (tmp_path / "own.toml").write_text(GOOD)
    recipes = load_recipes(tmp_path)
    assert [one.label for one in recipes.tables] == ["tab:own"]
    assert "oss" in recipes.roles
    assert "full" in recipes.banks


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('judge = "oss"', 'judge = "nobody"', "tab:own names the judge 'nobody', which judges.toml does not have"),
        ('bank = "full"', 'bank = "half"', "tab:own names the bank 'half', which banks.toml does not have"),
        ("title =", "titel =", "the recipe own.toml: .*titel"),
        ("[benchmarks.rubricbench]", "[benchmarks]", "own.toml: a row needs"),
        ('label = "tab:own"', "label = ", "cannot read the recipe own.toml"),
    ],
)
def test_a_recipe_that_is_wrong_is_told_in_a_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    """The file and what is wrong in it are named."""
    assert old in GOOD
    (tmp_path / "own.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        load_recipes(tmp_path)


def test_data_is_named_by_file_or_found_in_a_folder(tmp_path: Path) -> None:
    """Files in a folder are told by their names; what is named by itself goes over them."""
    for name in ("rubricbench.jsonl", "train.csv.gz", "other.jsonl"):
        (tmp_path / name).touch()
    other = tmp_path / "other.jsonl"
    found = data_files([str(tmp_path), f"rubricbench={other}"])
    assert found == {"rubricbench": other, "train": tmp_path / "train.csv.gz"}
    with pytest.raises(UsageError, match=r"--data .*nothing holds no benchmark"):
        data_files([str(tmp_path / "nothing")])


def test_judges_are_named_for_all_or_by_role() -> None:
    """An address may have = in it; a role that no recipe has, and two judges for all, are refused."""
    roles = ("oss", "gpt-5.4")
    assert by_name(["rules", "oss=http://h/v1#m=1"], "judge", roles) == ("rules", {"oss": "http://h/v1#m=1"})
    assert by_name(["http://h/v1#m=1"], "judge", roles) == ("http://h/v1#m=1", {})
    with pytest.raises(UsageError, match="--judge os=rules names nobody"):
        by_name(["os=rules"], "judge", roles)
    with pytest.raises(UsageError, match="both stand for all"):
        by_name(["rules", "gpt-4o-mini"], "judge", roles)


def test_a_judge_in_an_option_gets_the_base_url_too(tmp_path: Path) -> None:
    """Who samples or proposes is asked where the others are: an option names address and model."""
    settings = ReproSettings(out=tmp_path, base_url="http://127.0.0.1:1/v1")
    assert addressed("gpt-oss-120b", settings) == "http://127.0.0.1:1/v1#gpt-oss-120b"
    assert addressed("http://h/v1#m", settings) == "http://h/v1#m"
    assert addressed("gpt-oss-120b", ReproSettings(out=tmp_path)) == "gpt-oss-120b"
