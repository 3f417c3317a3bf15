"""What a bank's report shows: plain values, worked out and worded, nothing escaped yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from svr_async.core.dev_pairs import enough, too_few
from svr_async.core.integrity import Mark, integrity_marks
from svr_async.core.statistics import Interval, wilson_interval
from svr_async.evaluation import wording
from svr_async.evaluation.chance import against_chance
from svr_async.reports.bank_curves import Curves, EpochLine, curves_of, descended, epoch_lines
from svr_async.reports.bank_structure import LearningView, StructureView, view_learning, view_structure
from svr_async.reports.runfacts import Fact, flat_facts, number
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.bank_history import BankHistory, RoundFacts
from svr_async.scoring.bank_stats import GENERIC, bank_stats

SHOWN_RUBRICS = 24
SHOWN_EXAMPLES = 3
LEAST_ACTIVE = 5e-5  # a lower activation rate would be shown as 0.00 %
SHOWN_EPOCHS = 400
SHOWN_NOTES = 3  # more notes of the bank than this are folded up
NOTHING_HELD_OUT = "Nothing was measured on held-out pairs."
NO_HISTORY = "This bank keeps no history of its fit: it was merged, or is of an older version."
ABLATIONS = {
    "induction": "contrastive induction: rubrics describe good responses instead of contrasting two",
    "support": "support pairs: drawn at random instead of by their margin",
    "probe": "probes: hard negatives come from the data’s own responses only",
    "diversity": "the diversity term of the loss",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricLine:
    """One of the rubrics that decide most: `influence` is weight times activation."""

    text: str
    tags: tuple[str, ...]
    weight: float
    activation: float
    influence: float
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BankView:
    """Everything the template shows of a bank."""

    title: str
    judge: str
    n_rubrics: int
    train_pairs: int | None
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]
    more_notes: tuple[str, ...]
    accuracy: float | None
    untold: str
    ci95: Interval | None
    n_dev: int
    reading: str
    headline: tuple[Fact, ...]
    curves: Curves | None
    several_seeds: bool
    structure: StructureView | None
    learning: LearningView | None
    epochs: tuple[EpochLine, ...]
    n_epochs: int
    rounds: tuple[RoundFacts, ...]
    chosen_round: int
    rubrics: tuple[RubricLine, ...]
    same_weight: str
    largest: float
    domains: Mapping[str, Mapping[str, Any]]
    trained_on: tuple[Fact, ...]
    ablations: tuple[str, ...]
    settings: tuple[Fact, ...]


def view_bank(bank: RubricBank) -> BankView:
    """Work out what is shown of a bank; one without a history shows what its rubrics and settings tell."""
    accuracy, n_dev = _accuracy(bank)
    told = accuracy is None or not n_dev or enough(n_dev)
    history = bank.history if told or bank.history is None else _without_dev(bank.history)
    epochs = tuple(epoch_lines(history)) if history else ()
    rubrics = _rubric_lines(bank.rubrics)
    ci95 = wilson_interval(accuracy * n_dev, n_dev) if accuracy is not None and n_dev and told else None
    return BankView(
        title=bank.name or "A rubric bank",
        judge=bank.judge or "not recorded",
        n_rubrics=len(bank),
        train_pairs=history.trained_on.train_pairs if history and history.trained_on else None,
        marks=integrity_marks(bank.integrity),
        notes=_warnings(bank) + (() if len(bank.notes) > SHOWN_NOTES else _own_notes(bank)),
        more_notes=_own_notes(bank) if len(bank.notes) > SHOWN_NOTES else (),
        accuracy=accuracy if told else None,
        untold=NOTHING_HELD_OUT if told else f"{too_few(n_dev)[0].upper()}{too_few(n_dev)[1:]}.",
        ci95=ci95,
        n_dev=n_dev,
        reading=" ".join(filter(None, (against_chance({"accuracy": accuracy}, ci95), _reading(history)))),
        headline=_headline(bank, history),
        curves=curves_of(history) if history else None,
        several_seeds=history is not None and len({curve.seed for curve in history.curves}) > 1,
        structure=view_structure(history.choice) if history else None,
        learning=view_learning(history.learning_curve) if history else None,
        epochs=epochs[:SHOWN_EPOCHS],
        n_epochs=len(epochs),
        rounds=history.rounds if history else (),
        chosen_round=history.chosen_round if history else 0,
        rubrics=rubrics,
        same_weight=_same_weight(bank.rubrics),
        largest=max((row.influence for row in rubrics), default=0.0),
        domains=bank_stats(bank)["domains"],
        trained_on=tuple(_trained_on(bank)),
        ablations=tuple(ABLATIONS.get(name, name) for name in _ablated(bank)),
        settings=tuple(flat_facts(bank.fit_settings)),
    )


def _accuracy(bank: RubricBank) -> tuple[float | None, int]:
    """Return the dev accuracy that the bank claims and over how many pairs; none where nothing was held out."""
    curve = bank.history.chosen if bank.history else None
    claimed, pairs = number(bank.dev_metrics.get("accuracy")), number(bank.dev_metrics.get("pairs"))
    n_dev = int(pairs) if pairs and pairs > 0 else curve.dev_pairs if curve else 0
    if curve is not None and not n_dev:
        return None, 0
    return (claimed if claimed is not None and 0 <= claimed <= 1 else None), n_dev


def _without_dev(history: BankHistory) -> BankHistory:
    """Return a history as it is shown where dev pairs are too few to tell an accuracy: with none of them measured."""
    return replace(
        history,
        curves=tuple(replace(curve, dev_pairs=0) for curve in history.curves),
        rounds=tuple(map(_untold, history.rounds)),
        vote_accuracy=None,
        linear_accuracy=None,
    )


def _untold(facts: RoundFacts) -> RoundFacts:
    return replace(facts, dev_accuracy=None, fit_accuracy=None, vote_accuracy=None, linear_accuracy=None)


def _reading(history: BankHistory | None) -> str:
    """Say what the accuracy was also used for."""
    if history is None:
        return ""
    what = ["the epoch"] if descended(history) else []
    what += ["the seed"] if len({curve.seed for curve in history.curves}) > 1 else []
    what += ["the round" if history.choice else "the round and the settings for use"] if history.rounds else []
    if not what:
        return ""
    chosen = " and ".join([", ".join(what[:-1]), what[-1]]) if len(what) > 1 else what[0]
    return f"These pairs also chose {chosen}, so expect a little less on new ones."


def _headline(bank: RubricBank, history: BankHistory | None) -> tuple[Fact, ...]:
    most = min(bank.inference.top_k, len(bank))
    facts = [Fact(name="Rubrics", value=wording.count(len(bank)), note=f"up to {most} for a prompt")]
    if history is None:
        return tuple(facts)
    curve = history.chosen
    if curve is not None and curve.best is not None and curve.dev_pairs:
        error = curve.error(curve.best)
        told = "" if error is None else f"; standard error {100 * error:.1f} points"
        note = f"best {_top_k(bank)} of each pair’s judged rubrics{told}"
        facts.append(Fact(name="The fit", value=wording.percent(curve.best.dev_accuracy), note=note))
    if history.linear_accuracy is not None:
        note = "the same for every prompt, on the judged rubrics"
        facts.append(Fact(name="One weight a rubric", value=wording.percent(history.linear_accuracy), note=note))
    if history.vote_accuracy is not None:
        note = "every judged rubric counts the same"
        facts.append(Fact(name="Unweighted vote", value=wording.percent(history.vote_accuracy), note=note))
    return tuple(facts)


def _top_k(bank: RubricBank) -> int:
    settings = bank.fit_settings.get("fit", bank.fit_settings)
    value = settings.get("top_k") if isinstance(settings, Mapping) else None
    return value if isinstance(value, int) else bank.inference.top_k


def _warnings(bank: RubricBank) -> tuple[str, ...]:
    return bank.history.warnings if bank.history else (NO_HISTORY,)


def _own_notes(bank: RubricBank) -> tuple[str, ...]:
    """Return the notes of whoever made the bank, as sentences."""
    return tuple(f"{note[:1].upper()}{note[1:]}" for note in bank.notes)


def _rubric_lines(rubrics: Sequence[BankRubric]) -> tuple[RubricLine, ...]:
    """Return the rubrics that decide most; ties by weight, then by id."""
    active = [entry for entry in rubrics if entry.activation_rate >= LEAST_ACTIVE] or rubrics
    alike = len({entry.example_prompts for entry in active}) == 1 < len(active)  # every prompt activates the same
    order = sorted(active, key=lambda entry: (-entry.weight * entry.activation_rate, -entry.weight, entry.id))
    return tuple(
        RubricLine(
            text=entry.text,
            tags=tuple(filter(None, (entry.domain or GENERIC, entry.rubric.facet, _checked(entry)))),
            weight=entry.weight,
            activation=entry.activation_rate,
            influence=entry.weight * entry.activation_rate,
            examples=() if alike else entry.example_prompts[:SHOWN_EXAMPLES],
        )
        for entry in order[:SHOWN_RUBRICS]
    )


def _same_weight(rubrics: Sequence[BankRubric]) -> str:
    """Return the weight that all rubrics have as far as it is shown, for saying it once; empty where they differ."""
    weights = {f"{entry.weight:.3f}" for entry in rubrics}
    return f"{rubrics[0].weight:.4g}" if len(weights) == 1 < len(rubrics) else ""


def _checked(entry: BankRubric) -> str:
    told = {"checked by a program": entry.rubric.check, "disabled": entry.disabled, "added by hand": entry.added}
    return ", ".join(words for words, held in told.items() if held)


def _trained_on(bank: RubricBank) -> Iterator[Fact]:
    facts = bank.history.trained_on if bank.history else None
    yield Fact(name="Judge", value=bank.judge or "not recorded")
    if facts is not None:
        if facts.source:
            yield Fact(name="Pairs", value=facts.source, code=True)
        yield Fact(name="Trained on", value=wording.plural(facts.train_pairs, "pair"))
        note = "whole prompts: none is on both sides"
        yield Fact(name="Held out", value=wording.plural(facts.dev_pairs, "pair"), note=note)
        if facts.contaminated is not None:
            note = "they share 13 words in a row with a benchmark"
            yield Fact(name="Left out", value=wording.plural(facts.contaminated, "pair"), note=note)
        yield Fact(name="Preset of the fit", value=facts.preset or wording.UNKNOWN)
    for name, digest in bank.data_digests.items():
        yield Fact(name=f"Digest of {name}", value=digest, code=True)
    if bank.prompts_digest:
        yield Fact(name="Digest of the prompts", value=bank.prompts_digest, code=True)
    yield Fact(name="Licence", value=bank.licence or "not recorded")
    yield Fact(name="Bank", value=bank.digest[:16], code=True)


def _ablated(bank: RubricBank) -> tuple[str, ...]:
    if bank.history is not None and bank.history.trained_on is not None:
        return bank.history.trained_on.ablate
    named = bank.fit_settings.get("ablate")
    return tuple(str(name) for name in named) if isinstance(named, list | tuple) else ()
