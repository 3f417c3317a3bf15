"""The comparison of objectives works from preparing to tables on tiny worlds, and scores as the package decides."""

import asyncio
import gzip
import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rig import engine_at, judge_at, writer

from svr_async.judges.authoring import ModelAuthor
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.scoring.selection import TextSimilarities, select
from svr_async.scoring.svr import Svr, open_chooser
from svr_async.simulation.config import SimConfig
from svr_async.simulation.models import MODELS
from svr_async.simulation.server import SimServer
from svr_async.simulation.world import World, WorldConfig
from svr_async.training.store import FeatureStore
from svr_async.vocabulary.pair import Order, present
from svr_async.vocabulary.rubric import Rubric

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"
TRAIN, TEST = 150, 40


@pytest.fixture(scope="module")
def scripts():
    """Return the scripts as modules, with two quick variants in the places that differences are taken from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        names = ("objective", "data", "prepare", "score", "sim", "table", "variants")
        parts = {n: importlib.import_module(n if n == "objective" else f"objective_{n}") for n in names}
        variants = parts["variants"]
        patch.setattr(variants, "VARIANTS", variants.VARIANTS)
        patch.setitem(variants.VARIANTS, variants.LITERAL, variants.linear)
        patch.setitem(variants.VARIANTS, variants.USUAL, variants.plain_topics)
        yield SimpleNamespace(**parts)


@pytest.fixture(scope="module")
def planted(scripts, tmp_path_factory):
    """Return a folder with two tiny planted worlds."""
    out = tmp_path_factory.mktemp("planted")
    sizes = ["--noise", "0.05", "--seeds", "1", "2", "--train", str(TRAIN), "--test", str(TEST), "--dev-share", "0.2"]
    scripts.objective.run(scripts.objective.parse(["prepare", "sim", "--out", str(out), *sizes]))
    return out


def compare(scripts, prepared, results, *more):
    """Return what `compare` prints for the quick variants."""
    variants = ["--variants", "kernel regression", *more]
    options = scripts.objective.parse(["compare", str(prepared), "--results", str(results), *variants])
    return scripts.objective.run(options)


def cells(text, row):
    """Return the cells of a table's row by the head of its column; heads that repeat keep the first."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    found = next(line for line in lines if line[0].strip() == row)
    out = {}
    for name, cell in zip(lines[0], found, strict=True):
        out.setdefault(name.strip(), cell.strip())
    return out


async def test_the_judge_in_process_answers_as_the_simulated_endpoint_does(scripts, tmp_path):
    """The same pairs and rubrics get the same verdicts and proposals in process and over HTTP, noise and all."""
    world = World(WorldConfig(seed=3))
    model = MODELS["gpt-oss-120b"]
    pairs = [item.pair for item in world.pairs(4, "train")]
    judge, author = scripts.sim.SimJudge(world, model), scripts.sim.SimAuthor(world, model)
    async with (
        SimServer(SimConfig(seed=3)) as sim,
        judge_at(sim.base_url, tmp_path / "a") as asked,
        engine_at(sim.base_url, tmp_path / "b") as engine,
    ):
        for pair in pairs:
            there = await ModelAuthor(engine, writer(sim.base_url)).induce(pair)
            here = await author.induce(pair)
            assert here.value == there.value
            for order in Order:
                shown = present(pair, order)
                rows = [(await one.compare(shown, here.value, overall=False)).value.rows for one in (judge, asked)]
                assert [(r.rubric_id, r.delta) for r in rows[0]] == [(r.rubric_id, r.delta) for r in rows[1]]


def test_a_planted_world_is_prepared_whole(scripts, planted):
    """A world holds train and dev pools, dev and unseen pairs judged on the whole bank, and the planted truth."""
    problem = scripts.data.load(planted / "sim-05-1")
    assert problem.train.n_pairs + problem.dev.n_pairs == TRAIN
    assert problem.train.source_indptr is not None
    assert problem.dev_held.z.shape == (problem.dev.n_pairs, len(problem.texts))
    test = problem.tests["sim"]
    assert test.z.shape == test.truth.shape == (TEST, len(problem.texts))
    assert not np.isnan(test.z).any()


def test_compare_prints_every_variant_and_table_prints_the_same_again(scripts, planted, tmp_path):
    """The tables name every variant and yardstick, and can be made again from the results alone."""
    text = compare(scripts, planted, tmp_path)
    for name in ("longest answer", "knowing the truth", "kernel regression", scripts.variants.LITERAL):
        assert re.match(r"\d+\.\d ± \d+\.\d", cells(text, name)["top 6"])
    assert float(cells(text, "knowing the truth")["top 6"].split()[0]) > 70
    assert "2 seeds; 80 unseen pairs" in text
    assert "Best mean dev accuracy, top 6:" in text
    assert scripts.objective.run(scripts.objective.parse(["table", str(tmp_path)])) == text


def test_only_what_is_missing_is_fitted(scripts, planted, tmp_path, monkeypatch):
    """A second run fits nothing; an added variant costs its own fits; `--again` fits the named one anew."""
    calls = []

    def counted(train, dev, seed):
        calls.append(seed)
        return scripts.variants.constant(np.ones(train.n_rubrics))

    compare(scripts, planted, tmp_path)
    monkeypatch.setitem(scripts.variants.VARIANTS, "added", counted)
    for expected, more in ((2, ()), (2, ()), (4, ("--again",))):
        text = compare(scripts, planted, tmp_path, "added", *more)
        assert len(calls) == expected
    assert cells(text, "added")["top 6"]


def test_scores_are_what_the_package_decides(scripts, planted):
    """A selector's margins here are those of a bank with that selector when the same judge decides the pairs."""
    problem = scripts.data.load(planted / "sim-05-2")
    selector = scripts.variants.start_topics(problem.train, scripts.variants.DEFAULT)
    header = FeatureStore.load(planted / "sim-05-2" / "store").header
    settings = InferenceSettings(top_k=6, selection_pool=18, filler_weight=0.3)
    bank = RubricBank(
        rubrics=tuple(
            BankRubric(rubric=Rubric(text=text), weight=float(weight))
            for text, weight in zip(problem.texts, selector.weight, strict=True)
        ),
        selector_kind=selector.kind,
        selector=selector.tensors(),
        vocabulary=header.vocabulary,
        idf=header.idf,
        inference=settings,
    )
    world = World(WorldConfig(seed=2))
    judge = scripts.sim.SimJudge(world, MODELS["gpt-oss-120b"].__class__(name="gpt-oss-120b", noise=0.05))
    held = problem.tests["sim"]
    importance = scripts.variants.selector_importance(selector)(held.prompts)
    found = scripts.score.margins(importance, held, TextSimilarities(problem.texts), 6, (0.3,)).at(0.3)
    kinds = [kind for _, kind in scripts.prepare.test_domains(world, TEST)]
    method = Svr(open_chooser(bank))
    for place, item in enumerate(world.pairs(TEST, "test", kinds)):
        order = scripts.prepare.asking.hashed_order(item.pair.id)
        decision = asyncio.run(method.decide(judge, present(item.pair, order), ())).in_data_order()
        margin = decision.margin if item.pair.chosen_first else -decision.margin
        assert margin == pytest.approx(found[place], abs=1e-5)


def test_real_pairs_are_folded_by_prompt_and_judged_by_checks(scripts, tmp_path):
    """Real pairs go from files to tables: a fold's prompts are in no training pair, other sets are scored too."""
    write_sets(tmp_path / "data")
    out = tmp_path / "prepared"
    folds = ["--folds", "0", "1", "--dev-share", "0.3"]
    command = ["prepare", "real", "--data", str(tmp_path / "data"), "--out", str(out), *folds]
    scripts.objective.run(scripts.objective.parse(command))
    problem = scripts.data.load(out / "real-0")
    sizes = {name: len(held.z) for name, held in problem.tests.items()}
    assert problem.train.n_pairs + problem.dev.n_pairs + sizes["rmb"] == 60
    assert (sizes["llmbar"], sizes["pandalm"]) == (3, 2)
    assert problem.free
    assert problem.checks.shape[0] == problem.train.n_pairs
    text = compare(scripts, out, tmp_path / "results")
    assert "3 pairs, the same for each seed" in text
    row = cells(text, "logistic regression, all checks")
    assert float(row["top 6"].split()[0]) > 60
    assert "k by dev" in row


def write_sets(folder):
    """Write small sets in the forms of RMB, LLMBar and PandaLM; the longer answer of two is the better one."""
    long, short = "It is so, because of reasons that take a while to tell, one by one.", "It is so."
    rows = [
        {
            "conversation_input": [{"role": "user", "content": f"Tell me of matter number {n} and of its kin."}],
            "chosen": {"answer": f"{long} {n}"},
            "reject": {"answer": f"{short} {n}"},
            "category_path": "Pairwise_set/Helpfulness/Chat/Talk",
        }
        for n in range(60)
    ]
    dump(folder / "rmb/Pairwise_set/Helpfulness/Chat.json", rows)
    rows = [{"input": f"Say {n}.", "output_1": long, "output_2": short, "label": 1} for n in range(3)]
    dump(folder / "llmbar/LLMBar/Natural/dataset.json", rows)
    votes = {"annotator1": 1, "annotator2": 1, "annotator3": 0}
    rows = [{"instruction": f"Do {n}.", "input": "", "response1": long, "response2": short, **votes} for n in range(2)]
    path = folder / "pandalm/testset-v1.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))


def dump(path, rows):
    """Write rows as a JSON list."""
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(rows), "utf-8")


def test_pairs_of_one_prompt_count_once_against_chance(scripts):
    """Repeating every pair under its own prompt leaves a difference as likely by chance as it was."""
    rng = np.random.default_rng(0)
    values = rng.choice([-1.0, 0.0, 1.0], 80, p=[0.1, 0.6, 0.3])
    once = scripts.table._clustered_p(values, np.arange(80))
    thrice = scripts.table._clustered_p(np.repeat(values, 3), np.repeat(np.arange(80), 3))
    assert thrice == pytest.approx(once)
    assert 0 < once < 0.05


def test_logistic_regression_takes_any_sign(scripts):
    """The yardstick finds a check that speaks for the chosen response and one that speaks against it."""
    z = np.random.default_rng(1).choice([-1.25, 1.25], (300, 3)) * [1, 1, 1]
    z *= np.sign(z[:, [0]] - z[:, [1]] + 0.1)
    weight = scripts.score.logistic(z, np.arange(300))
    assert weight[0] > 0 > weight[1]


def test_without_fillers_the_choice_is_the_package_s_too(scripts):
    """The quick form for free judges picks what `select` picks with a filler weight of 0, ties and zeros included."""
    rng = np.random.default_rng(0)
    importance = np.maximum(rng.integers(-3, 6, size=(40, 9)), 0).astype(np.float32)
    rule = InferenceSettings(top_k=4, selection_pool=9, filler_weight=0.0)
    expected = np.zeros((40, 9))
    for row, values in enumerate(importance):
        for entry in select(values, np.ones(9, np.float32), TextSimilarities(list("abcdefghi")), rule):
            expected[row, entry.index] = entry.importance

    np.testing.assert_array_equal(scripts.score._best(importance, 4)[0], expected)
