"""What a training tells of itself: round by round, step by step, and its settings beside the printed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from svr_async.core.integrity import integrity_marks
from svr_async.evaluation import wording
from svr_async.evaluation.run_folder import Run
from svr_async.fit.tfidf import MAX_FEATURES
from svr_async.reproduction.printed import Printed, PrintedRow
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, TrainedBank, judged
from svr_async.reproduction.table import Cell, Column, Row, Table
from svr_async.reproduction.tables.accuracy import table_of
from svr_async.scoring.bank_history import RoundFacts
from svr_async.training.rounds.config import PRESETS, TrainConfig

ROUNDS = 3
DYNAMICS = (
    Column(name="Train margin", unit="number"), Column(name="Dev margin", unit="number"),
    Column(name="Train − dev", unit="number"), Column(name="Dev accuracy"),
    Column(name="Hard negatives", unit="count"), Column(name="Active rubrics", unit="count"),
    Column(name="Bank", unit="count"),
)  # fmt: skip


def dynamics(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return a row a round: margins on train and dev, dev accuracy, hard negatives, rubrics in use, the bank's size."""
    bank = results.bank(recipe.banks[0])
    rounds = () if isinstance(bank, Absent) or bank.bank.history is None else bank.bank.history.rounds
    why = bank.why if isinstance(bank, Absent) else "" if rounds else "the bank does not say how it was trained"
    count = max(ROUNDS, len(rounds))
    rows = []
    for number in range(1, count + 1):
        facts = next((one for one in rounds if one.round == number), None)
        lack = why or ("" if facts else "training ended before this round")
        judge = "" if isinstance(bank, Absent) else bank.judged
        rows.append(_round(facts, _printed_round(printed, number), number, judge, lack))
    notes = (_gap(rounds), *_dev(bank))
    return replace(table_of(recipe, DYNAMICS, rows, [], tuple(filter(None, notes))), marks=marks_of_bank(bank))


def _printed_round(printed: Printed, number: int) -> Mapping[str, float]:
    """Return what the text tells of a round, by column; the gap is printed of the first and the last round."""
    label = "fig:training_dynamics"
    held = {one.name: one.value for one in printed.numbers if one.label == label}
    found = {"Train margin": held.get(f"train_margin_{number}"), "Active rubrics": held.get(f"active_{number}")}
    found["Hard negatives"] = held.get(f"negatives_{number}")
    found["Train − dev"] = held.get({1: "divergence_first", ROUNDS: "divergence_last"}.get(number, ""))
    return {name: value for name, value in found.items() if value is not None}


def _round(facts: RoundFacts | None, printed: Mapping[str, float], number: int, judge: str, absent: str) -> Row:
    values = [None] * len(DYNAMICS) if facts is None else _measured(facts)
    cells = [Cell(ours=value, printed=printed.get(column.name)) for value, column in zip(values, DYNAMICS, strict=True)]
    return Row(names=(f"{number}",), cells=tuple(cells), judged=judge if facts else "", absent=absent)


def _measured(facts: RoundFacts) -> list[float | None]:
    apart = None
    if facts.train_margin is not None and facts.dev_margin is not None:
        apart = facts.train_margin - facts.dev_margin
    accuracy = None if facts.dev_accuracy is None else 100 * facts.dev_accuracy
    numbers = [facts.train_margin, facts.dev_margin, apart, accuracy]
    return [*numbers, facts.hard_negatives, facts.active, facts.kept]


def _gap(rounds: Sequence[RoundFacts]) -> str:
    known = [one for one in rounds if one.train_margin is not None and one.dev_margin is not None]
    if len(known) < 2:
        return ""
    rising = all((a.dev_margin or 0.0) <= (b.dev_margin or 0.0) for a, b in pairwise(known))
    return (
        f"The dev margin {'rises' if rising else 'does not rise'} in every round; it is printed to rise monotonically."
    )


def _dev(bank: TrainedBank | Absent) -> Iterator[str]:
    if not isinstance(bank, Absent) and (pairs := bank.bank.dev_metrics.get("pairs")):
        yield f"Of {pairs:,} dev pairs; margins are in the scale of this fit's weights, so only their course compares."


STEP = (Column(name="Number", unit="count"), Column(name="What", unit="text"))


def overview(recipe: Recipe, printed: Printed, results: Results) -> Table:  # noqa: ARG001  (nothing is printed)
    """Return the method step by step, with what went in and came out in this training and this run."""
    bank, run = results.bank(recipe.banks[0]), results.run(recipe.rows[0].run)
    rows: list[Row] = []
    if isinstance(bank, Absent):
        rows.append(Row(names=("Training",), cells=(Cell(), Cell()), absent=bank.why))
    else:
        rows += [_step(name, number, what, bank.judged) for name, number, what in _steps(bank)]
    if isinstance(run, Absent):
        rows.append(Row(names=("Inference",), cells=(Cell(), Cell()), absent=run.why))
    else:
        rows += [_step(name, number, what, judged(run)) for name, number, what in _inference(run)]
    return table_of(recipe, STEP, rows, [run])


def _step(name: str, number: float, what: str, judge: str) -> Row:
    return Row(names=(name,), cells=(Cell(ours=number), Cell(text=what)), judged=judge)


def _steps(bank: TrainedBank) -> Iterator[tuple[str, float, str]]:
    history = bank.bank.history
    if history is not None:
        if history.trained_on is not None:
            yield "Preference pairs", history.trained_on.train_pairs, "to learn from"
            yield "Dev pairs", history.trained_on.dev_pairs, "held out, by prompts"
        for one in history.rounds:
            yield f"Round {one.round}: bank", one.bank, "rubrics after induction and merging"
            yield f"Round {one.round}: judged", one.judged_entries, "verdicts of a rubric on a pair"
            yield f"Round {one.round}: kept", one.kept, "rubrics after fitting and pruning"
            yield f"Round {one.round}: support pairs", one.support, "near the margin or beyond, when it began"
            yield f"Round {one.round}: hard negatives", one.hard_negatives, "responses nearest to crossing the boundary"
    yield "Bank", len(bank.bank.rubrics), "rubrics for use"


def _inference(run: Run) -> Iterator[tuple[str, float, str]]:
    chosen = [len({row.id for row in item.rubrics}) for item in run.items]
    yield "Judged pairs", len(run.items), "a prompt chooses its rubrics before a response is seen"
    if chosen and not max(chosen):
        yield "Rubrics a pair", 0, "the fit knew too little of unseen prompts, so the judge is asked directly"
    elif chosen:
        mean = wording.signed(sum(chosen) / len(chosen), 1).lstrip("+")
        yield "Rubrics a pair", max(chosen), f"at most, {mean} on the mean, in one call"


def hparams(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return every printed setting beside those of the preset `paper` and of the preset in use."""
    own = printed.table(recipe.label)
    bank = results.bank(recipe.banks[0])
    used = results.preset
    history = None if isinstance(bank, Absent) else bank.bank.history
    if history is not None and history.trained_on is not None:
        used = history.trained_on.preset or used
    columns = tuple(Column(name=name, unit="text") for name in ("Printed", "Preset paper", f"Preset in use: {used}"))
    presets = [PRESETS["paper"], PRESETS.get(used, PRESETS["default"])]
    rows = [_setting(row, presets) for row in own.rows]
    return replace(table_of(recipe, columns, rows, [], _judges(bank)), marks=marks_of_bank(bank))


def marks_of_bank(bank: TrainedBank | Absent) -> tuple[str, ...]:
    """Return the marks of the judge that trained a bank."""
    if isinstance(bank, Absent):
        return ()
    return tuple(mark.word for mark in integrity_marks(bank.bank.integrity))


def _setting(row: PrintedRow, presets: Sequence[TrainConfig]) -> Row:
    value = row.values[0]
    texts = [value if isinstance(value, str) else f"{value:g}", *(_of_preset(row.names[1], one) for one in presets)]
    return Row(names=(row.names[1],), group=row.names[0], cells=tuple(Cell(text=text) for text in texts))


def _of_preset(name: str, config: TrainConfig) -> str:
    """Return a setting of ours under the paper's name; in words where it has no counterpart."""
    fit, solved = config.fit, config.fit.kind == "topics"
    descent = "solved, not descended"
    values: Mapping[str, object] = {
        "Number of rounds T": config.rounds,
        "Epochs per round (main fit)": descent if solved else fit.epochs,
        "Calibration epochs per round": descent if solved else fit.calibration_epochs,
        "Batch size": descent if solved else fit.batch,
        "Optimiser": descent if solved else "AdamW",
        "Learning rate": descent if solved else fit.learning_rate,
        "Weight decay": "a penalty chosen by cross-validation" if solved else fit.weight_decay,
        "Preference loss weight": 1,
        "Support loss weight lambda_sup": "not in the text's loss",
        "Adversarial loss weight lambda_adv": "hard negatives are averaged with the pair's own",
        "Positive-side margin tau": config.support_margin,
        "Max support pairs per round": f"{config.max_support}{_share(config)}",
        "TF-IDF max features": MAX_FEATURES,
        "TF-IDF min document frequency": 1,
        "MLP hidden dimension": "no hidden layer: groups of prompts" if solved else fit.hidden,
        "Min bank weight w_min": config.min_weight,
        "Min activation rate": config.min_activation,
        "Redundancy similarity cutoff": config.redundancy_cutoff,
        "Bank deduplication similarity": config.merge_cutoff,
        "Top-k rubrics": " or ".join(map(str, fit.top_ks)) if solved else config.top_k_choices[0],
        "Selection pool size": config.selection_pool,
    }
    value = values.get(name, "see the note")
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _share(config: TrainConfig) -> str:
    return "" if config.support_share == 1 else f", and at most {100 * config.support_share:g} % of the pairs"


def _judges(bank: TrainedBank | Absent) -> tuple[str, ...]:
    asked = (
        "was not trained"
        if isinstance(bank, Absent)
        else f"was judged and probed by {bank.bank.judge or 'nobody known'}"
    )
    return (f"The bank {asked}.",)
