"""The summary of a bank: where it comes from, its rubrics, how it was fitted; for terminals and for its page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from svr_async.core.integrity import Mark, integrity_marks
from svr_async.core.rubric import IMPORTANCES
from svr_async.core.statistics import Interval, wilson_interval
from svr_async.core.table import Line, Part, Table, in_words
from svr_async.evaluation import wording
from svr_async.evaluation.summary import number
from svr_async.evaluation.wording import against_chance
from svr_async.reports.facts import Fact, flat_facts
from svr_async.scoring.bank import BankHistory, BankRubric, RoundFacts, RubricBank
from svr_async.scoring.bank_card import GENERIC, accuracy_in_words, bank_stats, enough, how_chosen

SHOWN = 20  # rubrics on a terminal, and ids of a rubric's pairs
SHOWN_RUBRICS, SHOWN_TRIALS = 100, 12  # on a page
LEAST_ACTIVE = 5e-5  # a lower activation rate would be shown as 0.00 %
FURTHER = "↳ "  # a further wording of the criterion above
COLUMNS = ("id", "weight", "active %", "seen", "supports", "domain", "facet", "rubric")
NARROW_COLUMNS = ("id", "weight", "active %", "rubric")
ROUND_NOTE = (
    "Judgement: one rubric on one pair. Support pair: decided wrongly or nearly so. "
    "Hard negative: a worse response that nearly wins."
)
NO_HISTORY = "This bank keeps no history of its fit: it was merged, or is of an older version."
ABLATIONS = {
    "induction": "contrastive induction: rubrics describe good responses instead of contrasting two",
    "support": "support pairs: drawn at random instead of by their margin",
    "probe": "probes: hard negatives come from the data’s own responses only",
    "diversity": "the diversity term of the loss",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BankSummary:
    """Everything that is shown of a bank; `facts` are how it was made."""

    title: str
    judge: str
    n_rubrics: int
    headline: str
    reading: str
    accuracy: float | None
    ci95: Interval | None
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]
    rubrics: Table
    yardsticks: tuple[Fact, ...]
    tables: tuple[Table, ...]
    facts: tuple[Fact, ...]
    settings: tuple[Fact, ...]
    history: BankHistory | None


def summarise_bank(bank: RubricBank) -> BankSummary:
    """Compute the summary of a bank; without a history it has only rubrics and settings."""
    accuracy, n_dev = _accuracy(bank)
    measured = accuracy is None or not n_dev or enough(n_dev)
    history = bank.history if measured or bank.history is None else _without_dev(bank.history)
    interval = wilson_interval(accuracy * n_dev, n_dev) if accuracy is not None and n_dev and measured else None
    pairs = wording.plural(n_dev, "held-out pair")
    if not measured:
        headline = f"{accuracy_in_words(0.0, n_dev).capitalize()}."
    elif accuracy is None:
        headline = "Accuracy not known: no pairs were held out of the fit."
    else:
        known = f" (95 % interval {wording.interval(interval)}, {pairs})" if interval else ""
        headline = f"Accuracy {wording.percent(accuracy)} on pairs held out of the fit{known}. A tie counts one half."
    reading = (against_chance({"accuracy": accuracy}, interval), _chosen_by(history) if measured else "")
    return BankSummary(
        title=bank.name or "A rubric bank",
        judge=bank.judge or "not recorded",
        n_rubrics=len(bank),
        headline=headline,
        reading=" ".join(filter(None, reading)),
        accuracy=accuracy if measured else None,
        ci95=interval,
        marks=integrity_marks(bank.marks),
        notes=(
            *(history.warnings if history else (NO_HISTORY,)),
            *(f"{note[:1].upper()}{note[1:]}" for note in bank.notes),
        ),
        rubrics=_rubric_table(bank.rubrics),
        yardsticks=tuple(_yardsticks(bank, history)),
        tables=tuple(_tables(bank, history)),
        facts=tuple(_facts(bank)),
        settings=tuple(flat_facts(bank.fit_settings)),
        history=history,
    )


def _accuracy(bank: RubricBank) -> tuple[float | None, int]:
    """Return the dev accuracy that the bank claims and over how many pairs; None if nothing was held out."""
    curve = bank.history.chosen if bank.history else None
    claimed, pairs = number(bank.dev_metrics.get("accuracy")), number(bank.dev_metrics.get("pairs"))
    n_dev = int(pairs) if pairs and pairs > 0 else curve.dev_pairs if curve else 0
    if curve is not None and not n_dev:
        return None, 0
    return (claimed if claimed is not None and 0 <= claimed <= 1 else None), n_dev


def _without_dev(history: BankHistory) -> BankHistory:
    """Return a history without figures from too few dev pairs."""
    nothing = dict.fromkeys(("dev_accuracy", "fit_accuracy", "vote_accuracy", "linear_accuracy"))
    return replace(
        history,
        curves=tuple(replace(curve, dev_pairs=0) for curve in history.curves),
        rounds=tuple(replace(one, **nothing) for one in history.rounds),  # type: ignore[arg-type]  # all are optional
        vote_accuracy=None,
        linear_accuracy=None,
    )


def _chosen_by(history: BankHistory | None) -> str:
    """Describe the choices made on the held-out pairs, which make their accuracy a little too high."""
    if history is None:
        return ""
    what = ["the epoch"] if any(record.epoch for curve in history.curves for record in curve.epochs) else []
    what += ["the seed"] if len({curve.seed for curve in history.curves}) > 1 else []
    what += ["the round" if history.choice else "the round and the settings for use"] if history.rounds else []
    if not what:
        return ""
    chosen = " and ".join([", ".join(what[:-1]), what[-1]]) if len(what) > 1 else what[0]
    return f"These pairs also chose {chosen}, so expect a little less on new ones."


def _yardsticks(bank: RubricBank, history: BankHistory | None) -> Iterator[Fact]:
    most = min(bank.inference.top_k, len(bank))
    yield Fact(name="Rubrics", value=wording.count(len(bank)), note=f"up to {most} for a prompt")
    curve = history.chosen if history else None
    if curve is not None and curve.best is not None and curve.dev_pairs:
        error = curve.error(curve.best)
        note = "on the judged rubrics" + ("" if error is None else f"; standard error {100 * error:.1f} points")
        yield Fact(name="The fit", value=wording.percent(curve.best.dev_accuracy), note=note)
    if history is not None and history.linear_accuracy is not None:
        note = "the same for every prompt, on the judged rubrics"
        yield Fact(name="One weight a rubric", value=wording.percent(history.linear_accuracy), note=note)
    if history is not None and history.vote_accuracy is not None:
        note = "every judged rubric counts the same"
        yield Fact(name="Unweighted vote", value=wording.percent(history.vote_accuracy), note=note)


def _rubric_table(rubrics: Sequence[BankRubric]) -> Table:
    """Return the rubrics that decide most: by weight times activation, then by weight, then by id."""
    active = [entry for entry in rubrics if entry.activation_rate >= LEAST_ACTIVE] or list(rubrics)
    order = sorted(active, key=lambda entry: (-entry.weight * entry.activation_rate, -entry.weight, entry.id))
    shown, alike = by_criterion(order)[:SHOWN_RUBRICS], _one_weight(rubrics)
    checks = all(entry.rubric.check for entry, _ in shown)
    cells = [("Rubric", "Weight", "Activation", "Product", "Domain and facet")]
    cells += [
        (
            f"{mark}{entry.text}", f"{entry.weight:.3f}", wording.percent(entry.activation_rate, 2),
            f"{entry.weight * entry.activation_rate:.3f}", " · ".join(_tags(entry, check=not checks)),
        )
        for entry, mark in shown
    ]  # fmt: skip
    heads, *rows = [row[:1] + row[2:5:2] for row in cells] if alike else cells
    share = "Activation: the rubric's mean share of a decision (alpha) over the training prompts."
    caption = (
        f"{len(rows)} of {wording.plural(len(rubrics), 'rubric')}{', each checked by a program' if checks else ''}"
    )
    return Table(heads, rows, caption=caption, notes=(share, alike or "Product: weight times activation."), texts=1)


def _one_weight(rubrics: Sequence[BankRubric]) -> str:
    """Return a sentence on the weight that all of several rubrics have; empty if their weights differ."""
    alike = len(rubrics) > 1 and len({f"{entry.weight:.3f}" for entry in rubrics}) == 1
    return f"Each weighs {rubrics[0].weight:.4g}; only the activations differ." if alike else ""


def by_criterion(rubrics: Sequence[BankRubric]) -> list[tuple[BankRubric, str]]:
    """Return rubrics with the wordings of a criterion next to each other; further wordings are marked."""
    groups: dict[str, list[BankRubric]] = {}
    for entry in rubrics:
        groups.setdefault(entry.criterion or entry.id, []).append(entry)
    return [(entry, FURTHER if place else "") for group in groups.values() for place, entry in enumerate(group)]


def _tags(entry: BankRubric, *, check: bool) -> Iterator[str]:
    yield entry.domain or GENERIC
    if entry.rubric.facet:
        yield entry.rubric.facet
    states = {
        "checked by a program": check and entry.rubric.check,
        "disabled": entry.disabled,
        "added by hand": entry.added,
    }
    yield from (words for words, applies in states.items() if applies)


def _tables(bank: RubricBank, history: BankHistory | None) -> Iterator[Table]:
    """Yield rounds, structures that were tried, and the counts by domain, if any."""
    if history is not None and history.rounds:
        yield _rounds_table(history.rounds, history.chosen_round)
    if history is not None and history.choice is not None:
        ranked = sorted(history.choice.trials, key=lambda trial: -trial.accuracy)
        chosen = history.choice.structure
        rows = [
            (
                f"{trial.structure.in_words()}{' (chosen)' if trial.structure == chosen else ''}",
                f"{wording.percent(trial.accuracy)} ± {100 * trial.error:.1f}",
            )
            for place, trial in enumerate(ranked)
            if place < SHOWN_TRIALS or trial.structure == chosen
        ]
        more = len(ranked) - len(rows)
        notes = [f"{history.choice.in_words()}. {how_chosen(history.choice)}"]
        notes += [f"{more} more were tried."] if more else []
        yield Table(("Structure", "Accuracy"), rows, caption="The structure that was chosen, and others", notes=notes)
    note = "A rubric belongs to the domain of most of the pairs that it was mined from; otherwise it is generic."
    yield replace(_group_table(bank_stats(bank), "domain"), notes=(note,))


def _rounds_table(rounds: Sequence[RoundFacts], chosen: int) -> Table:
    """Return a column for each round; measures that no round has are left out."""
    measures = (
        ("Rubrics fitted", "bank"), ("Kept", "kept"), ("Active", "active"), ("Support pairs", "support"),
        ("Hard negatives", "hard_negatives"), ("Judgements", "judged_entries"), ("Train margin", "train_margin"),
        ("Dev margin", "dev_margin"), ("Dev accuracy", "dev_accuracy"), ("Unweighted vote", "vote_accuracy"),
    )  # fmt: skip
    rows = [
        (head, *(_measure(name, getattr(one, name)) for one in rounds))
        for head, name in measures
        if any(getattr(one, name) is not None for one in rounds)
    ]
    heads = ("Round", *(f"{one.round}{' (chosen)' if one.round == chosen else ''}" for one in rounds))
    return Table(heads, rows, caption="Round by round", notes=(ROUND_NOTE,))


def _measure(name: str, value: float | None) -> str:
    if name.endswith("accuracy"):
        return wording.percent(value)
    return wording.signed(value) if name.endswith("margin") else wording.count(value)


def _facts(bank: RubricBank) -> Iterator[Fact]:
    facts = bank.history.trained_on if bank.history else None
    yield Fact(name="Judge", value=bank.judge or "not recorded")
    if facts is not None:
        if facts.source:
            yield Fact(name="Pairs", value=facts.source, code=True)
        yield Fact(name="Trained on", value=wording.plural(facts.train_pairs, "pair"))
        note = "split by prompt: each prompt is on one side"
        yield Fact(name="Held out", value=wording.plural(facts.dev_pairs, "pair"), note=note)
        if facts.contaminated is not None:
            note = "they share 13 words in a row with a benchmark"
            yield Fact(name="Left out", value=wording.plural(facts.contaminated, "pair"), note=note)
        yield Fact(name="Preset", value=facts.preset or wording.UNKNOWN)
    for name in () if facts is None else facts.ablate:
        yield Fact(name="Ablation", value=ABLATIONS.get(name, name))
    for name, digest in bank.data_digests.items():
        yield Fact(name=f"Digest of {name}", value=digest, code=True)
    if bank.prompts_digest:
        yield Fact(name="Digest of the prompts", value=bank.prompts_digest, code=True)
    yield Fact(name="Licence", value=bank.licence or "not recorded")
    yield Fact(name="Bank", value=bank.digest[:16], code=True)


def bank_parts(bank: RubricBank, chosen: Sequence[BankRubric], *, narrow: bool = False) -> Iterator[Part]:
    """Yield where a bank comes from and a table of the chosen rubrics, of few columns in a narrow terminal."""
    used = sum(entry.activation_rate > 0 for entry in bank.rubrics)
    counted = f"{len(bank):,}, {used:,} of them in use" if 0 < used < len(bank) else f"{len(bank):,}"
    criteria = len({entry.criterion or entry.id for entry in bank.rubrics})
    counted += f", {criteria:,} criteria" if criteria < len(bank) else ""
    yield Line(label="bank", text=f"{bank.name or 'without a name'}  {bank.digest[:12]}")
    yield Line(label="rubrics", text=f"{counted}, selector {bank.selector_kind}, {len(bank.vocabulary):,} terms")
    top, pool = min(bank.inference.top_k, len(bank)), min(bank.inference.selection_pool, len(bank))
    filler = f"; free places go to others, which weigh {weight:g}" if (weight := bank.inference.filler_weight) else ""
    yield Line(label="for use", text=f"up to {top} rubrics a prompt, from the best {pool}{filler}")
    yield Line(label="accuracy", text=summarise_bank(bank).headline.removeprefix("Accuracy "), wrapped=True)
    yield from (Line(label=fact.name.lower(), text=fact.value) for fact in _facts(bank) if fact.name != "Bank")
    if bank.history is not None and bank.history.choice is not None:
        yield Line(wrapped=True, label="structure", text=bank.history.choice.in_words())
    yield from (Line(wrapped=True, label="note", text=note) for note in bank.notes)
    alike = _one_weight(bank.rubrics)
    order = "the most active first" if alike else "the heaviest first"
    columns, texts = (NARROW_COLUMNS, 1) if narrow else (COLUMNS, 3)
    heads = [head for head in columns if not (alike and head == "weight")]
    rows = [[row[head] for head in heads] for row in itertools.starmap(_cells, by_criterion(chosen))]
    caption = f"{len(chosen)} of {len(bank)} rubrics, {order}"
    yield Table(heads, rows, caption=caption, notes=(alike,) if alike else (), texts=texts)


def _cells(entry: BankRubric, mark: str) -> dict[str, str]:
    states = {"check": entry.rubric.check, "disabled": entry.disabled, "added": entry.added}
    text = mark + entry.text + "".join(f" [{name}]" for name, applies in states.items() if applies)
    cells = (
        entry.id, f"{entry.weight:.3f}", f"{100 * entry.activation_rate:.2f}", f"{entry.observed_count:,}",
        f"{entry.support_count:,}", entry.domain or "generic", entry.rubric.facet or "–", text,
    )  # fmt: skip
    return dict(zip(COLUMNS, cells, strict=True))


def rubric_parts(entry: BankRubric) -> Iterator[Part]:
    """Yield all about one rubric."""
    rubric = entry.rubric
    facts = {
        "rubric": entry.text,
        "id": entry.id,
        "weight": f"{entry.weight:.4f}",
        "active": f"{100 * entry.activation_rate:.3f} % of training prompts, by mean alpha",
        "seen": f"{entry.observed_count} times, in {len(entry.source_pair_ids)} pairs",
        "supports": f"{entry.support_count} support pairs",
        "domain": entry.domain or "generic",
        "criterion": entry.criterion or "its own",
        "facet": rubric.facet or "–",
        "importance": rubric.importance or "–",
        "grounding": rubric.grounding or "–",
        "check": "none: a judge decides" if rubric.check is None else in_words(rubric.check.to_json()),
    }
    yield from (Line(label=label, text=text) for label, text in facts.items())
    lists = (("examples", entry.example_prompts), ("alias", entry.aliases), ("mined from", entry.source_pair_ids))
    for label, texts in lists:
        yield from (Line(label=label, text=text) for text in texts[:SHOWN])
        if len(texts) > SHOWN:
            yield Line(label=label, text=f"and {len(texts) - SHOWN} more: --json lists them")


def stats_parts(bank: RubricBank, found: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the counts of a bank by domain and by facet."""
    weights, words = found["weight_quantiles"], found["words_quantiles"]
    lines = {
        "rubrics": f"{len(bank)}, {found['with_check']} with a check, {found['aliases']} other wordings",
        "in use": f"{found['effective_rubrics']:.1f} effective, {found['never_active']} never active",
        "weight": f"median {weights[2]:.3f}, quartiles {weights[1]:.3f} to {weights[3]:.3f}",
        "length": f"median {words[2]:.0f} words, longest {words[4]:.0f}",
        "mined from": f"{found['source_pairs']:,} pairs, {found['observed']:,} proposals",
    }
    yield from (Line(label=label, text=text) for label, text in lines.items())
    yield from (_group_table(found, group) for group in ("domain", "facet"))


def _group_table(found: Mapping[str, Any], group: str) -> Table:
    counts = found[f"{group}s"]
    stated = [one for one in IMPORTANCES if any(row[one] for row in counts.values())]
    rows = [
        (
            name, f"{row['rubrics']:,}", f"{100 * row['share']:.1f}", *(f"{row[one]:,}" for one in stated),
            f"{row['activation']:.3f}", f"{row['supports']:,}", f"{row['mean_weight']:.3f}",
        )
        for name, row in counts.items()
    ]  # fmt: skip
    heads = (group, "rubrics", "%", *stated, "active", "supports", "weight")
    if len({row[-1] for row in rows}) == 1:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return Table(heads, rows, caption=f"Rubrics by {group}")
