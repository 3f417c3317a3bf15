"""The bank that ships with the package: whole, small, plain words only, with its sources and licences on its card."""

import configparser
import re
from pathlib import Path

import pytest

from svr_async import Bank, score_pair_sync
from svr_async.judges.rules.judge import check_of
from svr_async.judges.rules.lexicon import PROFANITY
from svr_async.judges.rules.registry import rubric_for
from svr_async.scoring import shipped
from svr_async.scoring.bank_card import render_card
from svr_async.scoring.bank_files import load_bank
from svr_async.scoring.bank_hub import locate_bank
from svr_async.scoring.svr import open_chooser
from svr_async.vocabulary.pair import user_prompt

ROOT = Path(__file__).parents[2]
MOST_BYTES = 400_000


@pytest.fixture(scope="module")
def bank():
    """Return the shipped bank."""
    return Bank.load("default")


def test_it_loads_by_its_name(bank):
    """`default` stands for the folder in the package, and the bank there passes every check."""
    assert locate_bank("default") == shipped.shipped_folder()
    assert locate_bank("default", offline=True) == shipped.shipped_folder()
    assert bank.digest == load_bank(shipped.shipped_folder()).digest
    assert bank.judge == "rules (offline checks, no model)"


def test_its_card_names_sources_and_licences(bank):
    """Each set that it was trained on is named with its licence, and so is what was measured."""
    card = (shipped.shipped_folder() / "card.md").read_text("utf-8")
    assert card == render_card(bank)
    assert 'license: "apache-2.0"' in card
    sources = [note for note in bank.notes if note.startswith("Source: ")]
    assert len(sources) >= 3
    assert all("Apache-2.0" in note for note in sources)
    assert bank.notes[0].startswith("trained offline on ")
    assert bank.notes[0].endswith("; rules judge, no model")
    for name in ("held-out", "LLMBar", "RMB", "sample"):
        assert any(note.startswith("Measured on") and name in note for note in bank.notes)


def test_it_is_small():
    """All files together stay below 400 kB."""
    assert sum(path.stat().st_size for path in shipped.shipped_folder().iterdir()) < MOST_BYTES


def test_its_words_are_plain(bank):
    """The selector's terms are one or two short words of letters, and none is a swear word."""
    assert all(re.fullmatch(r"[a-z]{2,18}( [a-z]{2,18})?", term) for term in bank.vocabulary)
    assert not PROFANITY & {word for term in bank.vocabulary for word in term.split()}


def test_it_holds_rubrics_of_the_package_and_nothing_of_the_data(bank):
    """Each rubric is a template of a check, word for word; no ids of pairs, no other wordings."""
    for entry in bank.rubrics:
        check = check_of(entry.rubric)
        assert check is not None
        assert entry.text == rubric_for(check).text
        assert (entry.aliases, entry.source_pair_ids, entry.example_prompts) == ((), (), ())


def test_it_decides_a_pair(bank):
    """Some of its rubrics are chosen for any prompt, with known words or without, and a pair gets a verdict."""
    chooser = open_chooser(bank)
    for prompt in ("What is the best way to learn a language?", "zzz qqq"):
        assert 0 < len(chooser.choose(user_prompt(prompt))) <= bank.inference.top_k
    good = "Regular practice helps: read a little each day, and speak with people who know the language well."
    assert score_pair_sync("What is the best way to learn a language?", good, "No.", bank=bank).winner == "A"


def test_the_wheel_takes_all_of_its_files():
    """The patterns of package data cover every file of the folder."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = config["options.package_data"]["svr_async.scoring"].split(",")
    package = ROOT / "svr_async/scoring"
    covered = {path for pattern in patterns for path in package.glob(pattern.strip())}
    assert {"bank.json", "selector.safetensors", "vocabulary.json", "card.md"} <= {path.name for path in covered}
    assert set((package / shipped.FOLDER).iterdir()) <= covered
