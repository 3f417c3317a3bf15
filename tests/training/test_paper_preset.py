"""`svr train --preset paper`: each part of Algorithm 1 as the text has it, compared with the default."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from baker import FAIL, OVEN, PAIR, REST, TIME, Baker, fitted_of, selector, session

from svr_async.adapters.hub import Source
from svr_async.commands.batch import params_of
from svr_async.commands.train_run import train_settings
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.core.similarity import similarity
from svr_async.errors import UsageError
from svr_async.evaluation.settings import EvalSettings
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector
from svr_async.scoring.bank import BankRubric
from svr_async.training.rounds.algorithm import chosen_round, prune, run_rounds
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.induction import extend, find_negatives, find_support
from svr_async.training.rounds.session import FittedRound, HardNegative, JudgedRound, RoundCarryover, Session
from svr_async.training.settings import load_data

SHORT = [Rubric(text=f"The whole response uses at most {n} words in all of its parts") for n in (50, 60)]
PRESETS = pytest.mark.parametrize("preset", ["paper", "default"])


WORDS = ["made.jsonl", "--out", "out", "--judge", "gpt-oss-120b"]


def config_of(preset: str, *flags: str) -> TrainConfig:
    """Return the settings of `svr train --preset PRESET` with these flags."""
    return train_settings(params_of("train", [*WORDS, "--preset", preset, *flags])).config


def test_the_preset_asks_in_the_papers_layouts_and_decontaminates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless prompts or benchmarks are named; RubricBench is fetched, and an error says what to do without it."""
    train = train_settings(params_of("train", [*WORDS, "--preset", "paper"]))
    assert train.limits.prompts == EvalSettings(benchmark="pairs", preset="paper").limits.prompts == Path("paper")
    own = train_settings(params_of("train", [*WORDS, "--preset", "paper", "--prompts", "mine"]))
    assert own.limits.prompts == Path("mine")
    pairs, bench = tmp_path / "pairs.jsonl", tmp_path / "rubricbench.jsonl"
    text = " ".join(f"word{n}" for n in range(20))
    rows = [{"id": str(n), "prompt": f"{text} {n}" if n else "other", "chosen": "a", "rejected": "b"} for n in range(3)]
    case = {"case_id": "1", "instruction": text, "response_a": "a", "response_b": "b", "label": 0, "domain": "code"}
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench.write_text(json.dumps(case))
    monkeypatch.setattr("svr_async.adapters.Adapter.fetch", lambda *_: Source(bench, (bench,)))
    data, contaminated = load_data(replace(train, pairs=pairs))
    assert ([pair.id for pair in data.pairs], len(contaminated or ())) == (["0"], 2)
    monkeypatch.undo()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="RubricBench, which is not here") as caught:
        load_data(replace(train, pairs=pairs))
    assert caught.value.hint == "name a file: --decontaminate rubricbench=PATH"
    assert load_data(replace(train, pairs=pairs, preset="default"))[1] is None


def near_of(margins: Callable[[int], Any]) -> Callable[[Selector, FitArrays], Any]:
    """Return what gives these margins in place of a selector's."""
    return lambda _, arrays: np.asarray(margins(arrays.n_pairs), np.float32)


def unfitted(_run: Session, judged: JudgedRound) -> FittedRound:
    """Return a selector with equal weights, after pruning."""
    whole = selector(judged.train.n_features, len(judged.bank))
    kept = np.array(prune(config_of("paper"), judged, whole))
    return judged.fitted(kept, whole.restrict(kept))


def near_session(
    folder: Path, config: TrainConfig, judge: Baker | None = None, pairs: Sequence[PreferencePair] = (PAIR, *REST)
) -> Session:
    """Return a run that finds every pair near the boundary; its training pairs were judged on both rubrics."""
    judge = judge or Baker({"bad": {TIME: FAIL}, "worse": {}, "awful": {}, "other": {OVEN: FAIL, TIME: FAIL}})
    run = replace(session(folder, config, judge, pairs), margins=near_of(lambda count: np.full(count, 0.1)))
    for pair in run.material.train:
        run.ledger.note(pair.id, [OVEN.id, TIME.id], [0.25, 1.25])
    return run


def author_of(run: Session) -> Baker:
    """Return the author of a run."""
    assert isinstance(run.judges.author, Baker)
    return run.judges.author


@PRESETS
async def test_hard_negatives_of_a_round_replace_those_before(tmp_path: Path, preset: str) -> None:
    """Algorithm 1 sets S_adv anew in each round; the default keeps what earlier rounds found."""
    run = near_session(tmp_path, config_of(preset))
    old = HardNegative(pair=replace(PAIR, id="p9~probe1", rejected="awful"), of="p0")
    growth = await extend(run, 2, fitted_of(run), RoundCarryover(candidates=(), negatives=(old,)))
    found = [f"p{n}~probe2" for n in range(4)]
    assert {negative.pair.id for negative in growth.negatives} == {*found, *(["p9~probe1"] * (preset == "default"))}


@pytest.mark.parametrize(
    ("preset", "other", "expected"),
    [
        ("paper", "awful", ["p0~q0"]),
        ("paper", "other", ["p0~probe1", "q0~probe1"]),
        ("default", "awful", ["p0~probe1", "q0~probe1"]),
    ],
    ids=["an alternative", "probes", "default"],
)
async def test_the_hard_negative_is_the_candidate_of_least_margin_alone_an_alternative_of_the_data_too(
    tmp_path: Path, preset: str, other: str, expected: list[str]
) -> None:
    """The argmin over P(x), of equals the first: the pair, alternatives, the probe.

    An awful response is as hard as a probe, so the paper takes it for the other pair and nothing for its own. The
    default takes all that are near, and none of the data, which are fitted already.
    """
    pairs = [PAIR, replace(PAIR, id="q0", rejected=other), *REST]
    run = near_session(tmp_path, replace(config_of(preset), support_margin=0.6), pairs=pairs)
    negatives = await find_negatives(run, 1, fitted_of(run), pairs[:2])
    assert [negative.pair.id for negative in negatives] == expected


async def test_a_hard_negative_of_the_data_is_fitted_and_induced_from_as_a_triple_of_its_own(tmp_path: Path) -> None:
    """(x, r+, r_adv) is added to the pairs although another pair has the same responses, and seeds the induction."""
    pairs = [PAIR, replace(PAIR, id="q0", rejected="awful"), *REST]
    run = near_session(tmp_path, config_of("paper", "--ablate", "probe"), pairs=pairs)
    growth = await extend(run, 1, fitted_of(run), RoundCarryover(candidates=()))
    assert [(one.pair.id, one.of, one.pair.rejected) for one in growth.negatives] == [("p0~q0", "p0", "awful")]
    assert author_of(run).induced[-1] == "p0~q0"


@PRESETS
async def test_support_pairs_are_all_near_the_boundary_the_hardest_first(tmp_path: Path, preset: str) -> None:
    """The paper caps them at 1,024 and names no share of the data; the default takes a tenth, 64 at least."""
    pairs = [replace(PAIR, id=f"p{n}", prompt=user_prompt(f"What is bread {n}?")) for n in range(81)]
    run = near_session(tmp_path, config_of(preset), pairs=pairs)
    run.margins = near_of(lambda count: np.linspace(0.3, -0.3, count))
    found = [pair.id for pair in find_support(run, 1, fitted_of(run))]
    near = [f"p{n}" for n in range(79, 13, -1)]
    assert found == near if preset == "paper" else found == near[:64]


@PRESETS
async def test_without_support_mining_every_training_pair_is_probed_and_induced_from(
    tmp_path: Path, preset: str
) -> None:
    """The paper's ablation "uses every pair for re-induction"; the default draws as many as there would be support."""
    run = near_session(tmp_path, config_of(preset, "--ablate", "support"))
    run.margins = near_of(lambda _: np.array([0.1, 9, 9, 9]))
    growth = await extend(run, 1, fitted_of(run), RoundCarryover(candidates=()))
    assert len(growth.support) == (4 if preset == "paper" else 1)
    judge = author_of(run)
    assert judge.probed == list(growth.support)
    assert {name.partition("~")[0] for name in judge.induced} == set(growth.support)


@PRESETS
async def test_a_bank_is_merged_by_similarity_alone(tmp_path: Path, preset: str) -> None:
    """The paper has no veto: "at most 50 words" and "at most 60 words" are one rubric there, and two in the default."""
    assert similarity(SHORT[0].text, SHORT[1].text) >= 0.92
    config = replace(config_of(preset, "--rounds", "1"), redundancy_cutoff=0.999)
    (fitted,) = await run_rounds(near_session(tmp_path, config, Baker({"bad": {}}, SHORT)), fit=unfitted)
    assert fitted.record["bank"] == (1 if preset == "paper" else 2)


@PRESETS
def test_different_checks_do_not_keep_two_texts_apart_when_merging_or_pruning(tmp_path: Path, preset: str) -> None:
    """Nor does any other difference than that of the texts, in the paper's preset; the first of two checks is kept."""
    checks = Check.of("max_words", n=50), Check.of("min_words", n=50)
    alike = [Rubric(text=f"The response is rather short, as was asked{end}", check=check)
             for end, check in zip((" for", " by"), checks, strict=True)]  # fmt: skip
    run = near_session(tmp_path, config_of(preset))
    for rubrics in (SHORT, alike):
        bank = tuple(BankRubric(rubric=rubric) for rubric in rubrics)
        arrays = run.arrays(run.indexed(bank), run.material.train)
        judged = JudgedRound(number=1, bank=bank, train=arrays, dev=arrays, measured=arrays, last=True)
        kept = prune(run.config, judged, selector(arrays.n_features, 2))
        assert kept == ([0] if preset == "paper" else [0, 1])


async def test_of_two_checks_that_merge_one_is_kept_with_its_own_text(tmp_path: Path) -> None:
    """A rubric never carries the check of another text."""
    names = {"for": "max_words", "for here": "min_words", "by us": "max_sentences"}
    checks = {f"The response is rather short, as was asked {end}": Check.of(names[end], n=50) for end in names}
    judge = Baker({"bad": {}}, [Rubric(text=text, check=check) for text, check in checks.items()])
    (fitted,) = await run_rounds(near_session(tmp_path, config_of("paper", "--rounds", "1"), judge), fit=unfitted)
    (kept,) = fitted.bank
    assert kept.rubric.check == checks[kept.rubric.text]
    assert len(kept.aliases) == 2


@PRESETS
async def test_all_rounds_are_run_though_one_finds_nothing_new(tmp_path: Path, preset: str) -> None:
    """Algorithm 1 runs from 1 to T; the default ends where the next round would see what this one saw."""
    run = near_session(tmp_path, config_of(preset, "--ablate", "probe"), Baker({"bad": {TIME: FAIL}}))
    rounds = await run_rounds(run, fit=unfitted)
    assert [one.number for one in rounds] == ([1, 2, 3] if preset == "paper" else [1])


@pytest.mark.parametrize("judge", ["rules", "gpt-oss-120b"])
def test_six_rubrics_of_a_pool_of_eighteen_and_fillers_of_weight_one_are_used_whoever_judges(judge: str) -> None:
    """As `app:hparams` and `app:topk` have it, also for a judge that costs nothing, unless --top-k says otherwise."""
    config = config_of("paper", "--judge", judge)
    assert (config.top_k, config.selection_pool, config.filler_weight) == (6, 18, 1.0)
    assert config_of("paper", "--judge", judge, "--top-k", "12").top_k == 12


def test_the_bank_of_the_last_round_is_published_unless_another_is_asked_for() -> None:
    """Algorithm 1 returns the bank of round T; the best by dev accuracy, as the authors' code has it, is `best`."""
    rounds: list[Any] = [SimpleNamespace(number=n, dev_accuracy=value) for n, value in enumerate((0.9, 0.5, 0.6), 1)]
    wanted = {("paper",): 3, ("default",): 1, ("paper", "--publish", "best"): 1, ("paper", "--publish", "auto"): 1,
              ("default", "--publish", "last"): 3, ("default", "--publish", "best"): 1}  # fmt: skip
    assert {flags: chosen_round(rounds, 100, config_of(*flags).publish).number for flags in wanted} == wanted


def hyperparameters() -> list[tuple[str, ...]]:
    """Return the rows of the paper's table as docs/fit.md has it: setting, paper's value, where it stands, default."""
    page = (Path(__file__).parents[2] / "docs" / "fit.md").read_text()
    table = page.partition("| group | setting | paper | where it stands | default |\n")[2].partition("\n\n")[0]
    return [tuple(cell.strip() for cell in line.split("|")[2:6]) for line in table.splitlines()[1:]]


@PRESETS
def test_the_papers_table_stands_in_the_docs_with_the_values_of_the_code(preset: str) -> None:
    """All 23 settings of `app:hparams` are there, and each that names a field has the value of either preset."""
    rows = hyperparameters()
    assert len({name for name, *_ in rows}) == 23
    config = config_of(preset)
    held = {"TrainConfig": config, "FitConfig": config.fit}
    named = [(where.strip("`").split("."), said, default) for _, said, where, default in rows if "Config." in where]
    assert len(named) == 15
    for (owner, field), said, default in named:
        value = getattr(held[owner], field)
        assert value == float(said if preset == "paper" else default), field
