"""The epochs of a fit as rows of a table and as lines of a log: texts, and which of them is the one to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.scoring.dev_pairs import enough

UNKNOWN = "–"
BEST = "▸"
CALIBRATE = "calibrate"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One row of the table: an epoch of a curve, how long it took, and whether it is the one to take (so far)."""

    curve: FitCurve
    record: EpochRecord
    seconds: float | None
    best: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head on a wide and on a narrow terminal, and the text of a cell."""

    wide: str
    narrow: str
    cell: Callable[[EpochRow], str]


COLUMNS = (
    Column("epoch", "epoch", lambda row: str(row.record.epoch or "start")),
    Column("preference loss", "loss", lambda row: _trained(row, row.record.preference_loss, 4)),
    Column("adversarial loss", "adv.", lambda row: _trained(row, row.record.adversarial_loss, 4)),
    Column("diversity loss", "div.", lambda row: _trained(row, row.record.diversity_loss, 4)),
    Column("train margin", "train margin", lambda row: _trained(row, row.record.train_margin, 3)),
    Column("dev margin", "dev margin", lambda row: f"{row.record.dev_margin:.3f}" if row.curve.dev_pairs else UNKNOWN),
    Column("dev accuracy", "dev acc. %", lambda row: accuracy_cell(row.curve, row.record)),
    Column("active rubrics", "active", lambda row: f"{row.record.active:,}"),
    Column("rate", "rate", lambda row: short_rate(row.record.learning_rate) if row.record.epoch else UNKNOWN),
    Column("seconds", "s", lambda row: UNKNOWN if row.seconds is None else f"{row.seconds:.1f}"),
)
ADVERSARIAL = COLUMNS[2]


def _trained(row: EpochRow, value: float | None, digits: int) -> str:
    """Return a value of training; a dash for the start, where no step was made yet."""
    return UNKNOWN if value is None or not row.record.epoch else f"{value:.{digits}f}"


def accuracy_cell(curve: FitCurve, record: EpochRecord) -> str:
    """Return a dev accuracy in percent with its standard error in points; a dash without enough dev pairs."""
    error = curve.error(record) if enough(curve.dev_pairs) else None
    return UNKNOWN if error is None else f"{100 * record.dev_accuracy:.1f} ± {100 * error:.1f}"


def short_rate(rate: float) -> str:
    """Return a learning rate with up to two digits, as `5e-4` or `1.2e-4`."""
    number, _, power = f"{rate:.1e}".partition("e")
    return f"{number.removesuffix('.0')}e{int(power)}"


def fit_name(curve: FitCurve) -> str:
    """Return what tells one fit of a command from another: its seed, and whether it is the one after pruning."""
    return f"seed {curve.seed}, calibrating" if curve.phase == CALIBRATE else f"seed {curve.seed}"


def plain_line(curve: FitCurve, record: EpochRecord, seconds: float | None) -> str:
    """Return one epoch as a line for a log; before the first there is nothing to say of training."""
    parts: list[str] = []
    if record.epoch:
        parts += [f"loss {record.preference_loss:.4f}"]
        parts += [] if record.adversarial_loss is None else [f"adversarial {record.adversarial_loss:.4f}"]
        parts += [f"diversity {record.diversity_loss:.4f}", f"train margin {record.train_margin:.3f}"]
    if curve.dev_pairs:
        parts += [f"dev margin {record.dev_margin:.3f}"]
        parts += [f"dev accuracy {accuracy_cell(curve, record)} %"] if enough(curve.dev_pairs) else []
    else:
        parts += [f"train accuracy {100 * record.train_accuracy:.1f} %"]
    parts += [f"{record.active} active"]
    parts += [f"rate {short_rate(record.learning_rate)}"] if record.epoch else []
    parts += [] if seconds is None else [f"{seconds:.1f} s"]
    return f"{fit_name(curve)}, {f'epoch {record.epoch}' if record.epoch else 'start'}: {', '.join(parts)}"


def row_of(curve: FitCurve, record: EpochRecord, times: dict[int, float], *, best: bool) -> EpochRow:
    """Return an epoch of a curve, with the seconds that `times` has for it."""
    return EpochRow(curve=curve, record=record, seconds=times.get(record.epoch), best=best)


def fitting(rows: Sequence[EpochRow], room: int) -> list[EpochRow]:
    """Return the last rows that fit, the best ones before them kept in place of the oldest."""
    if len(rows) <= room:
        return list(rows)
    marked = [row for row in rows[:-room] if row.best][-room + 1 :] if room > 1 else []
    return marked + list(rows[len(rows) - (room - len(marked)) :])


def best_curve(curves: Sequence[FitCurve]) -> FitCurve | None:
    """Return the curve with the best dev accuracy, then the lower dev loss, then the earlier."""
    known = [(curve, curve.best) for curve in curves]
    measured = [(best.dev_accuracy, -best.dev_loss, -place, curve) for place, (curve, best) in enumerate(known) if best]
    return max(measured, key=lambda entry: entry[:3])[3] if measured else None
