"""A bank in words: its card (a page of Markdown), statistics, the structure of its fit, its view in a notebook."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, fsum, log
from typing import Any

import numpy as np
import orjson

from svr_async.core.integrity import integrity_marks
from svr_async.core.rubric import IMPORTANCES
from svr_async.core.statistics import wilson_interval
from svr_async.core.table import Line, Parts, Table
from svr_async.core.verdict import is_number
from svr_async.fit.config import Choice, Structure
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.dev_pairs import enough, metrics_in_words

GENERIC = "generic"  # the domain of a rubric whose source pairs come from several
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
SHOWN_IN_NOTEBOOK = 12
SHOWN_RUBRICS = 20
_SPECIAL = re.compile(r"([\\`*_\[\]<>#!|~$&])")
_DATA_SET = re.compile(r"hf:([\w.-]+/[\w.-]+)", re.ASCII)
_LICENCE_ID = re.compile(r"[a-z0-9][a-z0-9.-]{1,40}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHub:
    """What a card on a hub adds: the bank's address, the command and versions that made it."""

    name: str
    digest: str
    licence: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def render_card(bank: RubricBank, hub: OnHub | None = None) -> str:
    """Return the card; the same bank gives the same text. Texts of the bank are escaped, so none acts as Markdown."""
    licence = (hub.licence if hub else "") or bank.licence
    marks = integrity_marks(bank.marks)  # said first: what the training judge was not
    parts = [_front_matter(bank, licence), f"# {_safe(bank.name) or 'A rubric bank'}"]
    parts += [f"> **{_safe(mark.word)}**: {_safe(mark.text)}" for mark in marks] + [_opening(bank)]
    parts += ["## Trained on", _training(bank, licence), *([] if hub is None else [_made(hub)])]
    parts += ["## How it does", _metrics(bank)]
    if bank.history and (choice := bank.history.choice):
        structure = _table(("what", "value", "meaning"), structure_parts(choice))
        parts += ["## What the pairs chose", how_chosen(choice), structure]
    parts += ["## Notes", "\n".join(f"- {_safe(note)}" for note in bank.notes)] if bank.notes else []
    parts += ["## Rubrics by domain", _domains(bank.rubrics)]
    parts += [f"## The {min(SHOWN_RUBRICS, len(bank))} rubrics that weigh most", _heaviest(bank.rubrics)]
    parts += ["## Known gaps", _gaps(bank), "## How to use it", _use(hub)]
    return "\n\n".join(parts) + "\n"


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
        f"Slots left free are filled by rubrics unlike those picked, which weigh {settings.filler_weight:g} each."
    )


def _training(bank: RubricBank, licence: str) -> str:
    rows = [("judge", bank.judge or "not recorded"), ("licence", licence or "not recorded")]
    trained = bank.history.trained_on if bank.history else None
    if trained is not None:
        rows += [("pairs", f"{trained.train_pairs:,} trained on, {trained.dev_pairs:,} held out to check with")]
        rows += [("from", trained.source)] if trained.source else []
    rows += [("prompts", bank.prompts_digest or "not recorded")]
    rows += [(f"data: {name}", digest) for name, digest in sorted(bank.data_digests.items())]
    rows += [(f"fit: {name}", value) for name, value in _flat(bank.fit_settings)]
    return _table(("what", "value"), rows)


def _made(hub: OnHub) -> str:
    rows = [("command", hub.command or "not recorded"), ("bank", f"{hub.digest} (SHA-256 of bank.json)")]
    return _table(("made with", "value"), [*rows, *sorted(hub.versions.items())])


def _metrics(bank: RubricBank) -> str:
    """Return what was measured on the dev split, with Wilson's 95 % interval of the accuracy over enough pairs."""
    metrics = bank.dev_metrics
    rows = [*_flat(metrics_in_words(metrics))]
    accuracy, pairs = metrics.get("accuracy"), metrics.get("pairs")
    if is_number(accuracy) and isinstance(pairs, int) and enough(pairs) and 0 <= accuracy <= 1:
        low, high = wilson_interval(accuracy * pairs, pairs)
        interval = f"{low:.4f} to {high:.4f} over {pairs:,} pairs, which may also have chosen the round"
        rows.append(("accuracy, 95 % interval", interval))
    return _table(("on the dev split", "value"), rows) if rows else "Nothing was measured on a dev split."


def _domains(rubrics: Sequence[BankRubric]) -> str:
    rows = [
        (name, f"{row['rubrics']:,}", f"{100 * row['share']:.1f}", f"{row['activation']:.3f}", f"{row['supports']:,}")
        for name, row in group_rows(rubrics, lambda entry: entry.domain or GENERIC).items()
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
    gaps = [
        f"{never} of {len(bank)} rubrics were never active on a training prompt.",
        f"{checked} rubrics carry a check that a program decides; the others depend on the judge that is used.",
        "A prompt unlike the training prompts is answered from the selector's biases.",
    ]
    return "\n".join(f"- {gap}" for gap in gaps)


def _use(hub: OnHub | None) -> str:
    lines = [f"svr eval PAIRS.jsonl --judge JUDGE --bank {hub.name if hub else 'THIS_FOLDER'}"]
    if hub is not None:
        lines = ["pip install 'svr-async[hub]'", *lines, f"svr bank pull {hub.name} bank"]
    return "\n".join(["```", *lines, "```"])


def _flat(values: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in sorted(in_one_level(values).items()):
        yield name, value if isinstance(value, str) else orjson.dumps(value).decode()


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_safe(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _safe(text: str) -> str:
    """Return a text for one line of Markdown: no controls, no line breaks, no markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(_CONTROL.sub(" ", text).split()))


# ── statistics ──


def bank_stats(bank: RubricBank) -> dict[str, Any]:
    """Return counts by domain and facet, quantiles of weights and lengths, and the effective number of rubrics in use.

    The effective number is exp(entropy) of the activation rates: n rubrics used equally count n.
    """
    rubrics = bank.rubrics
    return {
        "n_rubrics": len(rubrics),
        "with_check": sum(entry.rubric.check is not None for entry in rubrics),
        "never_active": sum(entry.activation_rate == 0 for entry in rubrics),
        "effective_rubrics": effective_number([entry.activation_rate for entry in rubrics]),
        "observed": sum(entry.observed_count for entry in rubrics),
        "aliases": sum(len(entry.aliases) for entry in rubrics),
        "source_pairs": len({pair for entry in rubrics for pair in entry.source_pair_ids}),
        "weight_quantiles": _quantiles([entry.weight for entry in rubrics]),
        "words_quantiles": _quantiles([len(entry.text.split()) for entry in rubrics]),
        "domains": group_rows(rubrics, lambda entry: entry.domain or GENERIC),
        "facets": group_rows(rubrics, lambda entry: entry.rubric.facet or "none"),
    }


def group_rows(rubrics: Sequence[BankRubric], key: Callable[[BankRubric], str]) -> dict[str, dict[str, Any]]:
    """Return, by group and for `total`: counts, severities, summed activation rates, supports, the mean weight."""
    groups: dict[str, list[BankRubric]] = {}
    for entry in sorted(rubrics, key=key):
        groups.setdefault(key(entry), []).append(entry)
    return {name: _row(group, len(rubrics)) for name, group in {**groups, "total": list(rubrics)}.items()}


def _row(group: Sequence[BankRubric], total: int) -> dict[str, Any]:
    severity = Counter(entry.rubric.importance for entry in group)
    return {
        "rubrics": len(group),
        "share": len(group) / total,
        **{importance: severity[importance] for importance in IMPORTANCES},
        "activation": fsum(entry.activation_rate for entry in group),
        "supports": sum(entry.support_count for entry in group),
        "mean_weight": fsum(entry.weight for entry in group) / len(group),
    }


def effective_number(shares: Sequence[float]) -> float:
    """Return exp(entropy) of shares that need not sum to 1; 0 where all are 0."""
    total = fsum(shares)
    return exp(-fsum(s / total * log(s / total) for s in shares if s > 0)) if total > 0 else 0.0


def _quantiles(values: Sequence[float]) -> list[float]:
    return [float(value) for value in np.quantile(values, QUANTILES)]


def in_one_level(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings in one level: those of a group under the group's name and a dot."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        found |= in_one_level(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return found


# ── the structure of a fit ──


def structure_words(structure: Structure) -> tuple[str, str, str]:
    """Return how many groups of prompts a structure has, its sparsity, and that of the part in common."""
    groups = "none" if structure.groups == 1 else str(structure.groups)
    sparsity = "shrunken means" if structure.solver == "shrunken" else f"{structure.sparsity:g}"
    return groups, sparsity, f"{structure.common:g}" if structure.common else "none"


def structure_parts(choice: Choice) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of each part of the chosen structure, and the number of spurious rubrics."""
    structure = choice.structure
    groups, sparsity, common = structure_words(structure)
    view = "rubrics" if structure.view == "rubrics" else "words of rubrics"
    grouped = f"by words that occur with the same {view}, each with separate weights"
    parts = [
        (
            "Groups of prompts",
            groups,
            "one weight a rubric, the same for every prompt" if structure.groups == 1 else grouped,
        )
    ]
    if structure.solver == "shrunken":
        parts += [("Weights", sparsity, "the mean of a rubric’s judgements, drawn towards 0 where they are few")]
    else:
        shared = "sparsity of what all prompts share"
        meaning = shared if structure.common else "nothing is learned for all prompts at once"
        parts += [("Sparsity", sparsity, "in units of noise: more leaves fewer rubrics")]
        parts += [("Part in common", common, meaning)]
    parts += [("Rubrics a prompt", str(structure.top_k), "the best of the bank")]
    if choice.spurious:
        parts += [("Spurious", str(len(choice.spurious)), "rubrics that only correlate with the label: no weight")]
    return parts


def how_chosen(choice: Choice) -> str:
    """Say how the structure was chosen."""
    if not choice.trials:
        return "The settings name this structure; no other was tried."
    others = len(choice.beside)
    averaged = f" It is averaged with {others} that did about as well." if others else ""
    return (
        f"Chosen among {len(choice.trials):,} by cross-validation, leaving out {choice.left_out} in turn: the simplest "
        f"of those that did as well as the best.{averaged}"
    )


# ── in a notebook ──


def bank_sheet(bank: RubricBank) -> Parts:
    """Yield where a bank comes from and its heaviest rubrics, of equal weight the most active."""
    yield Line(f"{bank.name or 'a bank without a name'}: {in_short(bank)}", loud=True)
    yield Line(bank.judge or "not recorded", label="trained with judge")
    for note in bank.notes:
        yield Line(note, label="note")
    ranked = sorted(bank.rubrics, key=lambda entry: (entry.disabled, -entry.weight, -entry.activation_rate))
    yield Table(
        ("rubric", "weight", "active %", "domain"), tuple(map(_notebook_row, ranked[:SHOWN_IN_NOTEBOOK])), texts=1
    )
    if (more := len(bank) - SHOWN_IN_NOTEBOOK) > 0:
        yield Line(f"and {more:,} more in .rubrics")


def in_short(bank: RubricBank) -> str:
    """Return how many rubrics a bank has, and what chooses among them."""
    disabled = sum(entry.disabled for entry in bank.rubrics)
    off = f" ({disabled:,} disabled)" if disabled else ""
    many = f"{len(bank):,} rubric{'' if len(bank) == 1 else 's'}"
    return f"{many}{off}, selector {bank.selector_kind}, top {bank.inference.top_k}"


def _notebook_row(entry: BankRubric) -> tuple[str, str, str, str]:
    text = f"{entry.text} (disabled)" if entry.disabled else entry.text
    return text, f"{entry.weight:.2f}", f"{100 * entry.activation_rate:.0f}", entry.domain
