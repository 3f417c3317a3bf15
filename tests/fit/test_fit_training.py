"""Fitting: it learns, it is reproducible, it equals the paper's formulas, and it refuses bad numbers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_arrays import judged_margins, made_arrays, split, with_edges, with_negatives, with_sources

from svr_async.errors import ArtefactError, ConfigError, DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT, PAPER, PRESETS, FitConfig
from svr_async.fit.epoch import (
    cut_steps,
    objective_of,
    preference_loss,
    run_epoch,
    start_state,
    step_features,
    step_loss,
    tabulate,
)
from svr_async.fit.forward import Selector, accuracy
from svr_async.fit.history import EpochRecord
from svr_async.fit.mlp import random_params
from svr_async.fit.topics import solve_topics
from svr_async.fit.training import calibrate, fit, pair_margins

TINY = replace(PAPER, hidden=8, epochs=3, batch=32, learning_rate=0.02, calibration_epochs=1)
CONFIGS = {
    "paper": TINY,
    "default": replace(DEFAULT, hidden=4),
}


def same(first: Selector, second: Selector) -> bool:
    """Whether two selectors hold the same bits."""
    return all(np.array_equal(value, second.tensors()[name]) for name, value in first.tensors().items())


@pytest.mark.parametrize("name", CONFIGS)
def test_it_learns_the_planted_truth(name: str) -> None:
    """On prompts of two kinds, the best rubrics of the whole bank separate unseen pairs far better than chance."""
    train, dev = split(with_sources(made_arrays(n_pairs=400)), 100)
    config = CONFIGS[name] if name == "default" else replace(CONFIGS[name], epochs=12)
    result = fit(train, dev, config)
    assert accuracy(judged_margins(result.selector, dev, 3)) > 0.75
    assert result.history[-1].active > 0


def test_a_huge_rate_ends_the_fit() -> None:
    """A learning rate of 1e38 makes the weights non-finite: exit 8."""
    train, _ = split(made_arrays())
    with pytest.raises(DegenerateFitError, match="not finite"):
        fit(train, None, replace(TINY, learning_rate=1e38))


@pytest.mark.parametrize("name", CONFIGS)
def test_one_rubric_works(name: str) -> None:
    """With a bank of one, alpha is 1 and the margin is w z (fault 102)."""
    arrays = made_arrays(n_rubrics=1, pool=1)
    result = fit(*split(arrays), CONFIGS[name])
    margins = pair_margins(result.selector, arrays)
    np.testing.assert_allclose(margins, result.selector.weight[0] * arrays.z_delta, rtol=1e-5)


def test_one_sided_pairs_converge_and_are_reported() -> None:
    """With every z > 0 the fit stays finite, weights stay >= 0, and a warning says so (fault 110)."""
    arrays = made_arrays()
    result = fit(*split(replace(arrays, z_delta=np.abs(arrays.z_delta))), TINY)
    assert result.selector.weight.min() >= 0
    assert any("one-sided" in warning for warning in result.warnings)


def test_a_collapsed_bank_is_reported() -> None:
    """With every z < 0 the weights shrink, stay >= 0, and a warning says so where they reach nothing (fault 110)."""
    arrays = made_arrays()
    negative = replace(arrays, z_delta=-np.abs(arrays.z_delta))
    result = fit(negative, None, replace(TINY, epochs=12, learning_rate=0.5))
    assert result.selector.weight.min() >= 0
    assert float(pair_margins(result.selector, negative).min()) > -0.1


@pytest.mark.parametrize("name", CONFIGS)
def test_ties_are_refused_and_cost_log_two(name: str) -> None:
    """All z at zero: the loss is log 2 exactly, and the fit refuses to return a random model (fault 107)."""
    arrays = made_arrays()
    tied = replace(arrays, z_delta=np.zeros_like(arrays.z_delta))
    assert float(preference_loss(jnp.float32(0))) == pytest.approx(np.log(2), rel=1e-7)
    with pytest.raises(DegenerateFitError, match="no signal"):
        fit(tied, None, CONFIGS[name])


def test_prompts_without_features_are_fitted() -> None:
    """With an empty vocabulary the biases alone learn which rubrics help (fault 105)."""
    arrays = made_arrays()
    blank = replace(
        arrays,
        n_features=0,
        feature_indptr=np.zeros(161, int),
        feature_index=np.zeros(0, int),
        feature_value=np.zeros(0, np.float32),
    )
    for config in CONFIGS.values():
        result = fit(*split(blank), config)
        assert np.isfinite(result.selector.weight).all()


def test_the_loss_equals_the_formula() -> None:
    """A step's loss is the paper's formula written out in NumPy, hard negatives and redundancy included."""
    arrays = with_edges(with_negatives(made_arrays(n_pairs=30)))
    params = random_params(24, 12, 8, 3)
    table, rows = tabulate(arrays)
    steps = cut_steps(rows, np.arange(30), 30, width=64)
    one, device = jax.tree.map(lambda part: jnp.asarray(part[0]), steps), jax.device_put(table)
    got, _ = jax.jit(step_loss, static_argnums=5)(
        params, device, one.row, one.share, step_features(device, one), objective_of(TINY)
    )
    np.testing.assert_allclose(got, formula(params, arrays), rtol=1e-5)


def formula(params: Any, arrays: FitArrays) -> Any:
    """Return L_pref + L_div, one pair at a time, in NumPy."""
    from svr_async.fit.forward import logits_numpy, sparsemax_numpy
    from svr_async.fit.mlp import to_selector

    selector = to_selector(params)
    matrix = np.zeros((12, 12))
    matrix[arrays.redundancy_i, arrays.redundancy_j] = arrays.redundancy_value
    matrix += matrix.T
    preference, diversity = np.zeros(30), np.zeros(30)
    for pair in range(30):
        entries = slice(6 * pair, 6 * pair + 6)
        logits = logits_numpy(selector, arrays.feature_index[4 * pair :][:4], arrays.feature_value[4 * pair :][:4])
        rubric, z = arrays.z_rubric[entries], arrays.z_delta[entries]
        alpha = sparsemax_numpy(logits)
        preference[pair] = np.logaddexp(0, -(alpha[rubric] * selector.weight[rubric] * z).sum())
        diversity[pair] = alpha @ matrix @ alpha
    assert arrays.negative_of is not None
    originals = np.flatnonzero(arrays.negative_of < 0)
    pref = preference[originals].sum() - preference[0] + (preference[0] + preference[-2:].mean()) / 2
    return pref / len(originals) + diversity[originals].mean()


def test_calibration_goes_on_from_the_kept_rubrics() -> None:
    """After pruning, three epochs at half the rate start from the fitted selector of the kept rubrics."""
    train, dev = split(made_arrays())
    fitted = fit(train, dev, TINY).selector
    kept = np.array([0, 1, 2, 3, 4, 5])
    small = train.restrict_rubrics(kept), dev.restrict_rubrics(kept)
    result = calibrate(fitted.restrict(kept), *small, TINY)
    assert result.selector.n_rubrics == 6
    assert [record.learning_rate for record in result.history] == [0.01, 0.01]
    assert [record.epoch for record in result.history] == [0, 1]
    with pytest.raises(ArtefactError, match="of 12 rubrics"):
        calibrate(fitted, *small, TINY)


def test_the_default_is_solved_and_not_descended() -> None:
    """One record, of epoch 0, is reported and kept; the result is the solution."""
    train, dev = split(with_sources(made_arrays()))
    reported: list[EpochRecord] = []
    result = fit(train, dev, CONFIGS["default"], on_epoch=reported.append)
    solved = solve_topics(train.without_own(), CONFIGS["default"])
    assert [record.epoch for record in result.history] == [0]
    assert reported == list(result.history)
    assert result.best_epoch == 0
    assert same(result.selector, solved.selector)
    assert result.choice == solved.choice


def test_after_pruning_the_default_stays_as_it_is() -> None:
    """What was solved stands, whichever rubrics are kept, and is measured again; a descended fit has no choice."""
    train, dev = split(with_sources(made_arrays()))
    fitted = fit(train, dev, CONFIGS["default"]).selector
    for kept in (np.arange(12), np.array([0, 1, 4, 7])):
        small = train.restrict_rubrics(kept), dev.restrict_rubrics(kept)
        result = calibrate(fitted.restrict(kept), *small, CONFIGS["default"])
        assert same(result.selector, fitted.restrict(kept))
        assert [record.epoch for record in result.history] == [0]
        assert result.choice is None
    with pytest.raises(ArtefactError, match="of 12 rubrics"):
        calibrate(fitted, *small, CONFIGS["default"])
    assert fit(train, dev, TINY).choice is None


def test_the_best_epoch_by_dev_is_returned() -> None:
    """The result is the epoch with the highest dev accuracy, the earliest of equals by dev loss."""
    train, dev = split(made_arrays())
    result = fit(train, dev, replace(TINY, epochs=6))
    top = max(record.dev_accuracy for record in result.history)
    assert result.dev_accuracy == top
    assert result.history[result.best_epoch - 1].dev_accuracy == top


def test_without_dev_the_training_pairs_choose() -> None:
    """No dev pairs: the training pairs take their place, and nothing is NaN."""
    result = fit(made_arrays(), None, TINY)
    assert all(np.isfinite(list(record.as_json().values())).all() for record in result.history)


def test_seeds_differ_and_repeat() -> None:
    """The same seed gives the same bits, another seed others."""
    train, dev = split(made_arrays())
    first, second, third = (fit(train, dev, replace(TINY, seed=seed)) for seed in (0, 0, 1))
    assert same(first.selector, second.selector)
    assert not same(first.selector, third.selector)


def test_own_entries_are_left_out_where_asked() -> None:
    """With `use_own` off, changing a pair's own entries changes nothing."""
    arrays = made_arrays(z_own=np.arange(960) % 6 == 0)
    assert arrays.z_own is not None
    other = replace(arrays, z_delta=np.where(arrays.z_own, np.float32(1.25), arrays.z_delta))
    config = replace(CONFIGS["paper"], use_own=False)
    assert same(fit(arrays, None, config).selector, fit(other, None, config).selector)


def test_pairs_without_entries_are_left_out() -> None:
    """A pair that was never judged has margin 0 and takes no part."""
    arrays = made_arrays(n_pairs=40)
    counts = np.full(40, 6)
    counts[3] = 0
    keep = np.repeat(np.arange(40), 6) != 3
    fewer = replace(
        arrays,
        z_indptr=np.concatenate([[0], np.cumsum(counts)]),
        z_rubric=arrays.z_rubric[keep],
        z_delta=arrays.z_delta[keep],
    )
    result = fit(fewer, None, TINY)
    assert pair_margins(result.selector, fewer)[3] == 0


def test_a_step_of_adamw_equals_the_published_update() -> None:
    """One step from zero moments moves each parameter by rate · (sign-like direction + decay · parameter)."""
    train, _ = split(made_arrays())
    params = random_params(24, 12, 8, 0)
    table, rows = tabulate(train)
    steps = cut_steps(rows, np.arange(32), 32, width=64)
    config = objective_of(replace(TINY, weight_decay=0.1))
    table, one = jax.device_put(table), jax.tree.map(lambda part: jnp.asarray(part[0]), steps)
    features = step_features(table, one)
    gradient = jax.jit(jax.grad(lambda p: step_loss(p, table, one.row, one.share, features, config)[0]))(params)
    after, _ = run_epoch(start_state(params), table, steps, jnp.float32(0.01), config)
    for old, slope, new in zip(*jax.device_get((params, gradient, after.params)), strict=True):
        expected = old - 0.01 * (slope / (np.abs(slope) + 1e-8) + 0.1 * old)
        np.testing.assert_allclose(new, expected, atol=2e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": 0},
        {"epochs": -1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"weight_decay": -1.0},
        {"kind": "topics", "epochs": 1},
        {"top_k": 0},
        {"kind": "forest"},
    ],
)
def test_settings_are_checked(change: dict[str, Any]) -> None:
    """A setting out of range is a config error that names field, rule and value."""
    with pytest.raises(ConfigError):
        FitConfig(**change)


def test_the_paper_preset_is_the_papers_table() -> None:
    """Preset `paper` holds the values of the paper's hyper-parameter table."""
    paper = PRESETS["paper"]
    assert (paper.epochs, paper.batch, paper.learning_rate, paper.weight_decay) == (8, 128, 2e-3, 1e-4)
    assert (paper.kind, paper.hidden) == ("mlp", 256)


def test_the_log_says_what_hard_negatives_cost() -> None:
    """With hard negatives the log holds their part of the preference loss; without them there is none to hold."""
    arrays = made_arrays()
    with_some = fit(with_negatives(arrays), None, replace(TINY, epochs=1)).history[-1]
    without = fit(arrays, None, replace(TINY, epochs=1)).history[-1]

    assert with_some.adversarial_loss is not None
    assert 0 < with_some.adversarial_loss < with_some.preference_loss
    assert without.adversarial_loss is None
