"""Fitting: it learns, it is reproducible, it resumes to the same bytes, and it survives bad numbers."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]  # it ships no types
import pytest
from made_arrays import made_arrays, split, with_edges, with_negatives, with_sources
from svr_async.fit.losses import preference_loss
from svr_async.fit.measure import accuracy, best, judged_margins
from svr_async.fit.selector import Features, Params, random_params

from svr_async.errors import ArtefactError, ConfigError, DegenerateFitError, StorageError
from svr_async.fit import batches, checkpoints, training
from svr_async.fit.arrays import FitArrays
from svr_async.fit.batches import Steps, Table
from svr_async.fit.config import DEFAULT, PAPER, PRESETS, FitConfig
from svr_async.fit.epoch import (
    Objective,
    State,
    StepLog,
    adamw,
    objective_of,
    run_epoch,
    slice_loss,
    start_state,
)
from svr_async.fit.forward import Selector
from svr_async.fit.history import EpochRecord
from svr_async.fit.topics import solve_topics
from svr_async.fit.training import calibrate, fit, pair_margins, spread

TINY = replace(PAPER, hidden=8, epochs=3, batch=32, learning_rate=0.02, calibration_epochs=1)
CONFIGS = {
    "paper": TINY,
    "judged": replace(TINY, pool="judged"),
    "default": replace(DEFAULT, hidden=4),
}
DESCENDED = ("paper", "judged")


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


@pytest.mark.parametrize("name", DESCENDED)
def test_a_killed_fit_resumes_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    """A fit that ends after any epoch and goes on gives the bytes of one that was never stopped (fault 112)."""
    train, dev = split(with_edges(made_arrays()))
    config = CONFIGS[name]
    whole = fit(train, dev, config, checkpoint_dir=tmp_path / "whole")

    def stop(record: EpochRecord) -> None:
        if record.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(train, dev, config, checkpoint_dir=tmp_path / "cut", on_epoch=stop)
    resumed = fit(train, dev, config, checkpoint_dir=tmp_path / "cut", resume=True)

    assert same(whole.selector, resumed.selector)
    assert whole.history == resumed.history
    cut, full = (tmp_path / folder / checkpoints.NAME for folder in ("cut", "whole"))
    assert cut.read_bytes() == full.read_bytes()


def test_resuming_a_finished_fit_changes_nothing(tmp_path: Path) -> None:
    """Resuming after the last epoch returns the stored result and runs nothing."""
    train, dev = split(made_arrays())
    first = fit(train, dev, TINY, checkpoint_dir=tmp_path)
    seen: list[EpochRecord] = []
    again = fit(train, dev, TINY, checkpoint_dir=tmp_path, resume=True, on_epoch=seen.append)
    assert same(first.selector, again.selector)
    assert seen == []


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    """Resuming with another seed or other data is an error, not a silent mix."""
    train, dev = split(made_arrays())
    fit(train, dev, TINY, checkpoint_dir=tmp_path)
    with pytest.raises(ArtefactError, match="other data or settings"):
        fit(train, dev, replace(TINY, seed=5), checkpoint_dir=tmp_path, resume=True)


def test_an_interrupted_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk fails while a checkpoint is written, the one before stays whole (fault 114)."""
    train, dev = split(made_arrays())
    fit(train, dev, TINY, checkpoint_dir=tmp_path)
    before = (tmp_path / checkpoints.NAME).read_bytes()

    def full_disk(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(StorageError, match="No space left"):
        fit(train, dev, TINY, checkpoint_dir=tmp_path)
    assert (tmp_path / checkpoints.NAME).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [checkpoints.NAME]


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """A truncated checkpoint is named, not half used."""
    train, dev = split(made_arrays())
    fit(train, dev, TINY, checkpoint_dir=tmp_path)
    path = tmp_path / checkpoints.NAME
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtefactError):
        fit(train, dev, TINY, checkpoint_dir=tmp_path, resume=True)


def poisoned(times: int) -> Callable[..., tuple[State, StepLog]]:
    """Return a stand-in for `run_epoch` whose first `times` runs of epoch 2 meet a NaN at step 1."""
    left = [times]

    def run(state: State, table: Table, steps: Steps, rate: jax.Array, config: Objective) -> tuple[State, StepLog]:
        after, log = run_epoch(state, table, steps, rate, config)
        if int(steps.number[0]) > 0 and left[0]:
            left[0] -= 1
            return after, log._replace(preference=log.preference.at[1].set(jnp.nan))
        return after, log

    return run


def test_a_non_finite_step_is_undone_at_half_the_rate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The epoch starts again from the last good state with half the rate, and the fit ends well (fault 106)."""
    train, dev = split(made_arrays())
    monkeypatch.setattr(training, "run_epoch", poisoned(2))
    result = fit(train, dev, TINY, checkpoint_dir=tmp_path)
    assert result.halvings == 2
    assert [record.learning_rate for record in result.history] == [0.02, 0.005, 0.005]
    assert np.isfinite(result.selector.weight).all()


def test_numbers_that_stay_bad_end_the_fit_with_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After three halvings the fit ends with exit 8, names the step, and keeps the last good checkpoint (fault 106)."""
    train, dev = split(made_arrays())
    monkeypatch.setattr(training, "run_epoch", poisoned(4))
    with pytest.raises(DegenerateFitError, match="epoch 2, step 1") as caught:
        fit(train, dev, TINY, checkpoint_dir=tmp_path)
    assert caught.value.exit_code == 8
    assert (tmp_path / checkpoints.NAME).exists()


def test_a_huge_rate_really_ends_so() -> None:
    """Not only an injected NaN: a learning rate of 1e38 is met by the same guard."""
    train, _ = split(made_arrays())
    with pytest.raises(DegenerateFitError, match="not finite"):
        fit(train, None, replace(TINY, learning_rate=1e38))


def test_slices_give_the_same_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory runs out, steps are cut into slices: the same result within 1e-5 (fault 113)."""
    train, dev = split(made_arrays())
    whole = fit(train, dev, TINY)

    def small_memory(
        state: State, table: Table, steps: Steps, rate: jax.Array, config: Objective
    ) -> tuple[State, StepLog]:
        if steps.row.shape[1] < 4:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes")
        done: tuple[State, StepLog] = run_epoch(state, table, steps, rate, config)
        return done

    monkeypatch.setattr(training, "run_epoch", small_memory)
    sliced = fit(train, dev, TINY)
    assert sliced.slices == 4
    for name, value in whole.selector.tensors().items():
        np.testing.assert_allclose(sliced.selector.tensors()[name], value, atol=1e-5)


def test_memory_that_is_never_enough_is_exit_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair at a time is the end of the road (fault 113)."""

    def no_memory(*_: object) -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(training, "run_epoch", no_memory)
    with pytest.raises(DegenerateFitError, match="memory ran out"):
        fit(*split(made_arrays()), TINY)


@pytest.mark.parametrize("name", CONFIGS)
def test_one_rubric_works(name: str) -> None:
    """With a bank of one, alpha is 1 and the margin is w z (fault 102)."""
    arrays = made_arrays(n_rubrics=1, pool=1)
    result = fit(*split(arrays), CONFIGS[name])
    margins = pair_margins(result.selector, arrays, CONFIGS[name])
    np.testing.assert_allclose(margins, result.selector.weight[0] * arrays.z_delta, rtol=1e-5)


def test_one_sided_pairs_converge_and_are_told() -> None:
    """With every z > 0 the fit stays finite, weights stay >= 0, and a warning says so (fault 110)."""
    arrays = made_arrays()
    result = fit(*split(replace(arrays, z_delta=np.abs(arrays.z_delta))), TINY)
    assert result.selector.weight.min() >= 0
    assert any("one-sided" in warning for warning in result.warnings)


def test_a_collapsed_bank_is_told() -> None:
    """With every z < 0 the weights shrink, stay >= 0, and a warning says so where they reach nothing (fault 110)."""
    arrays = made_arrays()
    negative = replace(arrays, z_delta=-np.abs(arrays.z_delta))
    result = fit(negative, None, replace(TINY, epochs=12, learning_rate=0.5))
    assert result.selector.weight.min() >= 0
    assert float(pair_margins(result.selector, negative, TINY).min()) > -0.1


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
    """One slice's loss is the paper's formula written out in NumPy, hard negatives and redundancy included."""
    arrays = with_edges(with_negatives(made_arrays(n_pairs=30)))
    params = random_params(24, 12, 8, 3)
    for pool in ("bank", "judged"):
        config = replace(TINY, pool=pool)
        table, rows = batches.tabulate(arrays, pooled=pool == "judged")
        order = np.arange(30)
        steps = batches.cut_steps(rows, order, 30, slices=1, width=64, first=0)
        last = len(table.piece_index) - 1
        at = np.minimum(steps.piece[0, 0], last)
        features = Features(
            jnp.asarray(table.piece_index[at]), jnp.asarray(table.piece_value[at]), jnp.asarray(steps.owner[0, 0])
        )
        device = jax.device_put(table)
        got, _ = jax.jit(slice_loss, static_argnums=5)(
            params, device, jnp.arange(30), jnp.full(30, 1 / 30), features, objective_of(config)
        )
        np.testing.assert_allclose(got, formula(params, arrays, pool), rtol=1e-5)


def formula(params: Any, arrays: FitArrays, pool: str) -> Any:
    """Return L_pref + L_div, one pair at a time, in NumPy."""
    from svr_async.fit.selector import to_selector

    from svr_async.fit.forward import logits_numpy, sparsemax_numpy

    selector = to_selector(params)
    matrix = np.zeros((12, 12))
    matrix[arrays.redundancy_i, arrays.redundancy_j] = arrays.redundancy_value
    matrix += matrix.T
    preference, diversity = np.zeros(30), np.zeros(30)
    for pair in range(30):
        entries = slice(6 * pair, 6 * pair + 6)
        logits = logits_numpy(selector, arrays.feature_index[4 * pair :][:4], arrays.feature_value[4 * pair :][:4])
        rubric, z = arrays.z_rubric[entries], arrays.z_delta[entries]
        if pool == "judged":
            mask = np.full(12, -np.inf, np.float32)
            mask[rubric] = 0
            logits = logits + mask
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


def test_the_default_is_solved_and_not_descended(tmp_path: Path) -> None:
    """One record, of epoch 0, is told and kept; the result is the solution; nothing is left to resume from."""
    train, dev = split(with_sources(made_arrays()))
    told: list[EpochRecord] = []
    result = fit(train, dev, CONFIGS["default"], on_epoch=told.append, checkpoint_dir=tmp_path)
    solved = solve_topics(train.without_own(), CONFIGS["default"])
    assert [record.epoch for record in result.history] == [0]
    assert told == list(result.history)
    assert result.best_epoch == 0
    assert same(result.selector, solved.selector)
    assert result.choice == solved.choice
    assert not list(tmp_path.iterdir())


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
    """The same seed gives the same bits, another seed others; the spread is reported."""
    train, dev = split(made_arrays())
    first, second, third = (fit(train, dev, replace(TINY, seed=seed)) for seed in (0, 0, 1))
    assert same(first.selector, second.selector)
    assert not same(first.selector, third.selector)
    mean, deviation = spread([first, third])
    assert mean == pytest.approx((first.dev_accuracy + third.dev_accuracy) / 2)
    assert deviation >= 0


def test_own_entries_are_left_out_where_asked() -> None:
    """With `use_own` off, changing a pair's own entries changes nothing."""
    arrays = made_arrays(z_own=np.arange(960) % 6 == 0)
    assert arrays.z_own is not None
    other = replace(arrays, z_delta=np.where(arrays.z_own, np.float32(1.25), arrays.z_delta))
    config = replace(CONFIGS["judged"], use_own=False)
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
    assert pair_margins(result.selector, fewer, TINY)[3] == 0


def test_margins_in_numpy_rank_the_judged_rubrics() -> None:
    """The best k judged rubrics, by importance over the bank, carry the margin."""
    train, dev = split(made_arrays())
    selector = fit(train, dev, CONFIGS["default"]).selector
    assert judged_margins(selector, dev, 6).shape == (40,)
    np.testing.assert_array_equal(best(np.array([0.1, 0.5, 0.0, 0.5, -1.0], np.float32), 4), [1, 3, 0])


def test_a_step_of_adamw_equals_the_published_update() -> None:
    """One step from zero moments moves each parameter by rate · (sign-like direction + decay · parameter)."""
    train, _ = split(made_arrays())
    params = random_params(24, 12, 8, 0)
    table, rows = batches.tabulate(train, pooled=False)
    steps = batches.cut_steps(rows, np.arange(32), 32, slices=1, width=64, first=0)
    config = objective_of(replace(TINY, weight_decay=0.1))
    table = jax.device_put(table)
    at = np.minimum(steps.piece[0, 0], len(table.piece_index) - 1)
    features = Features(table.piece_index[at], table.piece_value[at], jnp.asarray(steps.owner[0, 0]))
    row, share = jnp.asarray(steps.row[0, 0]), jnp.asarray(steps.share[0, 0])
    gradient = jax.jit(jax.grad(lambda p: slice_loss(p, table, row, share, features, config)[0]))(params)
    after, _ = run_epoch(start_state(params), table, steps, jnp.float32(0.01), config)
    for old, slope, new in zip(*jax.device_get((params, gradient, after.params)), strict=True):
        expected = old - 0.01 * (slope / (np.abs(slope) + 1e-8) + 0.1 * old)
        np.testing.assert_allclose(new, expected, atol=2e-5)


def test_steps_of_adamw_are_those_of_optax() -> None:
    """Thirty steps with changing gradients end where optax's AdamW ends, to rounding."""
    params = random_params(5, 4, 3, 0)
    ours, theirs, descent = start_state(params), params, optax.adamw(0.01, weight_decay=0.1)
    state = descent.init(params)

    @jax.jit
    def step(ours: State, theirs: Params, state: Any, number: jax.Array) -> tuple[State, Params, Any]:
        gradient = jax.tree.map(lambda value: jnp.sin(value * number), theirs)
        with jax.numpy_dtype_promotion("standard"):
            moves, state = descent.update(gradient, state, theirs)
        return adamw(ours, gradient, jnp.float32(0.01), 0.1), optax.apply_updates(theirs, moves), state

    for number in range(1, 31):
        ours, theirs, state = step(ours, theirs, state, jnp.float32(number))
    for got, expected in zip(ours.params, theirs, strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-6)


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
        {"pool": "all"},
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
    assert (paper.kind, paper.pool, paper.hidden) == ("mlp", "bank", 256)


def test_the_log_says_what_hard_negatives_cost() -> None:
    """With hard negatives the log holds their part of the preference loss; without them there is none to hold."""
    arrays = made_arrays()
    with_some = fit(with_negatives(arrays), None, replace(TINY, epochs=1)).history[-1]
    without = fit(arrays, None, replace(TINY, epochs=1)).history[-1]

    assert with_some.adversarial_loss is not None
    assert 0 < with_some.adversarial_loss < with_some.preference_loss
    assert without.adversarial_loss is None


def test_the_papers_calibration_takes_the_best_epoch_by_dev_though_the_lead_may_be_chance() -> None:
    """As the authors' code does: the best epoch, be its lead less than a standard error."""
    train, dev = split(made_arrays(n_pairs=260, seed=3), 60)
    config = replace(TINY, epochs=1, learning_rate=0.002, calibration_epochs=6)
    result = calibrate(fit(train, dev, config).selector, train, dev, config)
    best_seen = max(record.dev_accuracy for record in result.history)
    start = result.history[0].dev_accuracy
    assert 0 < best_seen - start < (start * (1 - start) / 60) ** 0.5
    assert result.dev_accuracy == best_seen
