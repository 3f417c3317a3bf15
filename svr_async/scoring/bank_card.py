"""A bank's card: one page of Markdown about what it was trained on, with what, how it does, and what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from svr_async.core.integrity import integrity_marks
from svr_async.core.rubric import IMPORTANCES
from svr_async.core.statistics import wilson_interval
from svr_async.core.verdict import is_number
from svr_async.fit.choices import Choice
from svr_async.scoring.bank_choice import Candidate, candidates, divided, how_chosen, structure_parts
from svr_async.scoring.bank_content import BankContent, BankRubric
from svr_async.scoring.bank_stats import GENERIC, group_rows
from svr_async.scoring.dev_pairs import enough, metrics_in_words

SHOWN_RUBRICS = 20
_SPECIAL = re.compile(r"([\\`*_\[\]<>#!|~$&])")
_DATA_SET = re.compile(r"hf:([\w.-]+/[\w.-]+)", re.ASCII)
_LICENCE_ID = re.compile(r"[a-z0-9][a-z0-9.-]{1,40}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHub:
    """What a bank's card says on a hub besides: where it is, and the command and versions that it was made with."""

    name: str
    digest: str
    licence: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def render_card(bank: BankContent, hub: OnHub | None = None) -> str:
    """Return the card; the same bank gives the same text. Texts of the bank are escaped, so none acts as Markdown."""
    licence = (hub.licence if hub else "") or bank.licence
    parts = [_front_matter(bank, licence), f"# {_safe(bank.name) or 'A rubric bank'}", *_caveats(bank), _opening(bank)]
    parts += ["## Trained on", _training(bank, licence), *([] if hub is None else [_made(hub)])]
    parts += ["## How it does", _metrics(bank)]
    choice = bank.history.choice if bank.history else None
    parts += [] if choice is None else ["## What the pairs chose", _structure(choice)]
    parts += ["## Notes", "\n".join(f"- {_safe(note)}" for note in bank.notes)] if bank.notes else []
    parts += ["## Rubrics by domain", _domains(bank.rubrics)]
    parts += [f"## The {min(SHOWN_RUBRICS, len(bank))} rubrics that weigh most", _heaviest(bank.rubrics)]
    parts += ["## Known gaps", _gaps(bank), "## How to use it", _use(hub)]
    return "\n\n".join(parts) + "\n"


def _front_matter(bank: BankContent, licence: str) -> str:
    words = [mark.word.lower().replace(" ", "-") for mark in integrity_marks(bank.integrity)]
    values: dict[str, Any] = {"library_name": "svr-async", "tags": ["rubrics", "llm-as-a-judge", *words]}
    known = _LICENCE_ID.fullmatch(licence)
    values |= {"license": licence} if known else {"license": "other", "license_name": licence or "unknown"}
    trained = bank.history.trained_on if bank.history else None
    if trained is not None and (found := _DATA_SET.match(trained.source)):
        values["datasets"] = [found[1]]
    lines = [f"{key}: {orjson.dumps(value).decode()}" for key, value in values.items()]  # JSON is YAML
    return "\n".join(["---", *lines, "---"])


def _caveats(bank: BankContent) -> list[str]:
    """Say first what the judge was not that the bank was trained with."""
    return [f"> **{_safe(mark.word)}**: {_safe(mark.text)}" for mark in integrity_marks(bank.integrity)]


def _opening(bank: BankContent) -> str:
    settings = bank.inference
    return (
        f"{len(bank)} rubrics with weights, and a selector ({_safe(bank.selector_kind)}, {len(bank.vocabulary)} terms) "
        f"that picks up to {settings.top_k} of them for a prompt from the best {settings.selection_pool}. "
        f"Slots left free are filled by rubrics unlike those picked, which weigh {settings.filler_weight:g} each."
    )


def _training(bank: BankContent, licence: str) -> str:
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


def _metrics(bank: BankContent) -> str:
    rows = [*_flat(metrics_in_words(bank.dev_metrics)), *_interval(bank.dev_metrics)]
    return _table(("on the dev split", "value"), rows) if rows else "Nothing was measured on a dev split."


def _interval(metrics: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield the 95 % interval of the accuracy on the dev split, by Wilson, where there are pairs enough to tell it."""
    accuracy, pairs = metrics.get("accuracy"), metrics.get("pairs")
    if is_number(accuracy) and isinstance(pairs, int) and enough(pairs) and 0 <= accuracy <= 1:
        low, high = wilson_interval(accuracy * pairs, pairs)
        yield (
            "accuracy, 95 % interval",
            f"{low:.4f} to {high:.4f} over {pairs:,} pairs, which may also have chosen the round",
        )


def _structure(choice: Choice) -> str:
    """Return the structure of the fit, how it was chosen, and the best candidates."""
    told = _table(("what", "value", "meaning"), structure_parts(choice))
    heads = ("groups", "sparsity", "in common", "rubrics a prompt", "accuracy %", "± standard error", "")
    rows = candidates(choice)
    shown = [(*_candidate(row), "taken" if row.taken else "") for row in divided(rows)[0]]
    told = f"{how_chosen(choice)}\n\n{told}"
    if not shown:
        return told
    return f"{told}\n\n{len(shown)} of {len(rows)} candidates, the most accurate first:\n\n{_table(heads, shown)}"


def _candidate(row: Candidate) -> tuple[str, ...]:
    numbers = f"{100 * row.accuracy:.1f}", f"{100 * row.error:.1f}"
    return row.groups, row.sparsity, row.common, str(row.top_k), *numbers


def _domains(rubrics: Sequence[BankRubric]) -> str:
    heads = ("domain", "rubrics", "%", *IMPORTANCES, "activation", "supports")
    rows = [
        (
            name,
            f"{row['rubrics']:,}",
            f"{100 * row['share']:.1f}",
            *(f"{row[importance]:,}" for importance in IMPORTANCES),
            f"{row['activation']:.3f}",
            f"{row['supports']:,}",
        )
        for name, row in group_rows(rubrics, lambda entry: entry.domain or GENERIC).items()
    ]
    return _table(heads, rows)


def by_weight(rubrics: Iterable[BankRubric]) -> list[BankRubric]:
    """Return the rubrics, the heaviest first; ties by activation, then by id."""
    return sorted(rubrics, key=lambda entry: (-entry.weight, -entry.activation_rate, entry.id))


def _heaviest(rubrics: Sequence[BankRubric]) -> str:
    rows = [
        (f"{entry.weight:.3f}", f"{100 * entry.activation_rate:.2f}", entry.domain or GENERIC, entry.text)
        for entry in by_weight(rubrics)[:SHOWN_RUBRICS]
    ]
    return _table(("weight", "activation %", "domain", "rubric"), rows)


def _gaps(bank: BankContent) -> str:
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


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in sorted(values.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else orjson.dumps(value).decode()


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_safe(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _safe(text: str) -> str:
    """Return a text for one line of Markdown: no controls, no line breaks, no markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(_CONTROL.sub(" ", text).split()))
