"""A bank in words: accuracies, statistics, the structure of its fit, its card in Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import exp, fsum, log
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from svr_async.core.integrity import integrity_marks
from svr_async.core.rubric import IMPORTANCES
from svr_async.core.statistics import wilson_interval
from svr_async.core.table import markdown
from svr_async.core.verdict import is_number
from svr_async.fit.config import Choice
from svr_async.scoring.bank import BankRubric, RubricBank

if TYPE_CHECKING:
    from svr_async.scoring.provenance import Provenance

ENOUGH_DEV = 100  # held-out pairs; the standard error of an accuracy near 70 % is 4.6 points then
GENERIC = "generic"  # the domain of a rubric whose source pairs come from several
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
SHOWN_RUBRICS = 20
_DATA_SET = re.compile(r"hf:([\w.-]+/[\w.-]+)", re.ASCII)
_LICENCE_ID = re.compile(r"[a-z0-9][a-z0-9.-]{1,40}")


def enough(n_dev: int) -> bool:
    """Whether this number of held-out (dev) pairs is enough to report an accuracy."""
    return n_dev >= ENOUGH_DEV


def accuracy_in_words(accuracy: float, n_dev: int) -> str:
    """Return an accuracy (a fraction of 1) over held-out pairs, or that they are too few."""
    return f"dev accuracy {100 * accuracy:.1f} %" if enough(n_dev) else f"accuracy {_not_reported(n_dev)}"


def _not_reported(n_dev: int) -> str:
    return f"not reported: {n_dev} held-out pair{'s' * (n_dev != 1)}, {ENOUGH_DEV} needed"


def known_accuracy(accuracy: float, n_dev: int) -> str:
    """Return `, dev accuracy …` for the end of a sentence; empty if the held-out pairs are too few."""
    return f", {accuracy_in_words(accuracy, n_dev)}" if enough(n_dev) else ""


def metrics_in_words(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bank's dev metrics, with a text in place of each accuracy if its `pairs` are too few."""
    n_dev = metrics.get("pairs")
    if not isinstance(n_dev, int) or enough(n_dev):
        return dict(metrics)
    return {name: _not_reported(n_dev) if name.endswith("accuracy") else value for name, value in metrics.items()}


def small_dev_warnings(n_dev: int, n_pairs: int) -> list[str]:
    """Return a warning with a remedy if the held-out pairs are too few; empty otherwise."""
    if enough(n_dev):
        return []
    error = 100 * (0.7 * 0.3 / max(1, n_dev)) ** 0.5
    wanted = -(-ENOUGH_DEV * n_pairs // max(1, n_dev) // 100) * 100
    warning = (
        f"accuracy {_not_reported(n_dev)} (standard error {error:.1f} points near 70 %); differences between epochs, "
        f"rounds and settings are chance. Give about {wanted:,} pairs (now {n_pairs:,}), or evaluate the bank on other "
        "pairs (svr data split holds some out)"
    )
    return [warning]


def bank_stats(bank: RubricBank) -> dict[str, Any]:
    """Return counts by domain and facet, quantiles of weights and lengths, and the effective number of rubrics in use.

    The effective number is exp(entropy) of the activation rates: n rubrics used equally count n.
    """
    rubrics = bank.rubrics
    active = fsum(entry.activation_rate for entry in rubrics)
    shares = [entry.activation_rate / active for entry in rubrics if entry.activation_rate > 0]
    return {
        "n_rubrics": len(rubrics),
        "with_check": sum(entry.rubric.check is not None for entry in rubrics),
        "never_active": sum(entry.activation_rate == 0 for entry in rubrics),
        "effective_rubrics": exp(-fsum(share * log(share) for share in shares)) if shares else 0.0,
        "observed": sum(entry.observed_count for entry in rubrics),
        "aliases": sum(len(entry.aliases) for entry in rubrics),
        "source_pairs": len({pair for entry in rubrics for pair in entry.source_pair_ids}),
        "weight_quantiles": np.quantile([entry.weight for entry in rubrics], QUANTILES).tolist(),
        "words_quantiles": np.quantile([len(entry.text.split()) for entry in rubrics], QUANTILES).tolist(),
        "domains": _grouped(rubrics, lambda entry: entry.domain or GENERIC),
        "facets": _grouped(rubrics, lambda entry: entry.rubric.facet or "none"),
    }


def _grouped(rubrics: Sequence[BankRubric], key: Callable[[BankRubric], str]) -> dict[str, dict[str, Any]]:
    """Return the counts of each group, in the order of their names, and of all as `total`."""
    names = {name: [entry for entry in rubrics if key(entry) == name] for name in sorted(set(map(key, rubrics)))}
    return {name: _counts(group, len(rubrics)) for name, group in {**names, "total": rubrics}.items()}


def _counts(group: Sequence[BankRubric], total: int) -> dict[str, Any]:
    severity = Counter(entry.rubric.importance for entry in group)
    return {
        "rubrics": len(group),
        "share": len(group) / total,
        **{importance: severity[importance] for importance in IMPORTANCES},
        "activation": fsum(entry.activation_rate for entry in group),
        "supports": sum(entry.support_count for entry in group),
        "mean_weight": fsum(entry.weight for entry in group) / len(group),
    }


def in_one_level(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings in one level: those of a group under the group's name and a dot."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        found |= in_one_level(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return found


# ── the card ──


def render_card(bank: RubricBank, address: str = "", licence: str = "", made: Provenance | None = None) -> str:
    """Return the card, the same text for the same bank; no text of the bank acts as Markdown.

    A card on the hub has the bank's `address` and how it was `made`; `licence` replaces the bank's.
    """
    licence = licence or bank.licence
    marks = integrity_marks(bank.marks)  # first of all: whether a language model was asked
    parts = [_front_matter(bank, licence), f"# {_safe(bank.name) or 'A rubric bank'}"]
    parts += [f"> **{_safe(mark.word)}**: {_safe(mark.text)}" for mark in marks] + [_opening(bank)]
    parts += ["## Trained on", _table(("what", "value"), _training(bank, licence))]
    if address:
        command, versions = (made.for_others, made.versions) if made else ("not recorded", {})
        rows = [("command", command), ("bank", f"{bank.digest} (SHA-256 of bank.json)"), *sorted(versions.items())]
        parts.append(_table(("made with", "value"), rows))
    measured = list(_metrics(bank.dev_metrics))
    parts += ["## Accuracy", _table(("on held-out pairs", "value"), measured) if measured else "Not measured."]
    if bank.history and (choice := bank.history.choice):
        parts += ["## What the pairs chose", f"{_safe(choice.in_words())}. {how_chosen(choice)}"]
    parts += ["## Notes", "\n".join(f"- {_safe(note)}" for note in bank.notes)] if bank.notes else []
    parts += ["## Rubrics by domain", _domains(bank)]
    parts += [f"## The {min(SHOWN_RUBRICS, len(bank))} rubrics that weigh most", _heaviest(bank.rubrics)]
    use = ["pip install 'svr-async[hub]'", f"svr bank pull {address} bank"] if address else []
    use += [f"svr eval PAIRS.jsonl --judge JUDGE --bank {address or 'THIS_FOLDER'}"]
    parts += ["## Known gaps", _gaps(bank), "## How to use it", "\n".join(["```", *use, "```"])]
    return "\n\n".join(parts) + "\n"


def how_chosen(choice: Choice) -> str:
    """Describe how the structure was chosen."""
    if not choice.trials:
        return "The settings name this structure; no other was tried."
    others = f" It is averaged with {len(choice.averaged)} that did about as well." if choice.averaged else ""
    how = f"Chosen among {len(choice.trials):,} by cross-validation, leaving out {choice.left_out} in turn"
    return f"{how}: the simplest of those that did as well as the best.{others}"


def _front_matter(bank: RubricBank, licence: str) -> str:
    words = [mark.word.lower().replace(" ", "-") for mark in integrity_marks(bank.marks)]
    values: dict[str, Any] = {"library_name": "svr-async", "tags": ["rubrics", "llm-as-a-judge", *words]}
    known = _LICENCE_ID.fullmatch(licence)
    values |= {"license": licence} if known else {"license": "other", "license_name": licence or "unknown"}
    trained = bank.history.trained_on if bank.history else None
    if trained is not None and (found := _DATA_SET.match(trained.source)):
        values["datasets"] = [found[1]]
    lines = [f"{key}: {orjson.dumps(value).decode()}" for key, value in values.items()]  # JSON is YAML
    return "\n".join(["---", *lines, "---"])


def _opening(bank: RubricBank) -> str:
    settings = bank.inference
    return (
        f"{len(bank)} rubrics with weights, and a selector ({_safe(bank.selector_kind)}, {len(bank.vocabulary)} terms) "
        f"that picks up to {settings.top_k} of them for a prompt from the best {settings.selection_pool}. "
        f"Free slots are filled by dissimilar rubrics, which weigh {settings.filler_weight:g} each."
    )


def _training(bank: RubricBank, licence: str) -> Iterator[tuple[str, str]]:
    yield "judge", bank.judge or "not recorded"
    yield "licence", licence or "not recorded"
    if bank.history and (trained := bank.history.trained_on):
        yield "pairs", f"{trained.train_pairs:,} trained on, {trained.dev_pairs:,} held out to check with"
        if trained.source:
            yield "from", trained.source
    yield "prompts", bank.prompts_digest or "not recorded"
    yield from ((f"data: {name}", digest) for name, digest in sorted(bank.data_digests.items()))
    yield "settings of the fit", "fit_settings in bank.json"


def _metrics(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the measurements on the dev split, with Wilson's 95 % interval of the accuracy over enough pairs."""
    for name, value in sorted(in_one_level(metrics_in_words(metrics)).items()):
        yield name, value if isinstance(value, str) else orjson.dumps(value).decode()
    accuracy, pairs = metrics.get("accuracy"), metrics.get("pairs")
    if is_number(accuracy) and isinstance(pairs, int) and enough(pairs) and 0 <= accuracy <= 1:
        low, high = wilson_interval(accuracy * pairs, pairs)
        measured = f"{low:.4f} to {high:.4f} over {pairs:,} pairs, which may also have chosen the round"
        yield "accuracy, 95 % interval", measured


def _domains(bank: RubricBank) -> str:
    rows = [
        (name, f"{row['rubrics']:,}", f"{100 * row['share']:.1f}", f"{row['activation']:.3f}", f"{row['supports']:,}")
        for name, row in bank_stats(bank)["domains"].items()
    ]
    return _table(("domain", "rubrics", "%", "activation", "supports"), rows)


def _heaviest(rubrics: Sequence[BankRubric]) -> str:
    ranked = sorted(rubrics, key=lambda entry: (-entry.weight, -entry.activation_rate, entry.id))
    rows = [
        (f"{entry.weight:.3f}", f"{100 * entry.activation_rate:.2f}", entry.domain or GENERIC, entry.text)
        for entry in ranked[:SHOWN_RUBRICS]
    ]
    return _table(("weight", "activation %", "domain", "rubric"), rows)


def _gaps(bank: RubricBank) -> str:
    never = sum(entry.activation_rate == 0 for entry in bank.rubrics)
    checked = sum(entry.rubric.check is not None for entry in bank.rubrics)
    return (
        f"- {never} of {len(bank)} rubrics were never active on a training prompt.\n"
        f"- {checked} rubrics carry a check that a program decides; the others depend on the judge that is used.\n"
        "- A prompt unlike the training prompts is answered from the selector's biases."
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_safe(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _safe(text: str) -> str:
    return markdown(" ".join(text.split())).replace("$", "\\$")  # the hub reads dollars as formulas
