"""What labels say of a run, in rows and lines of words."""

from __future__ import annotations

from collections.abc import Iterator

from svr_async.core.agreement import Estimate
from svr_async.core.table import Line, Parts, Table
from svr_async.evaluation import wording
from svr_async.evaluation.labels import caption
from svr_async.evaluation.people import LABELS, Agreement, PeopleFound, Rate
from svr_async.evaluation.run_folder import Run

AGREEMENT_HEADS = ("who", "items", "same label", "95 % interval", "Cohen’s κ", "95 % interval", "α", "95 % interval")
RATE_HEADS = ("", "rate", "95 % interval")
TABLE_HEADS = ("people say", *(f"judge {label}" for label in LABELS))
SHOWN = 10


def agreement_rows(found: PeopleFound) -> list[tuple[str, ...]]:
    """Return a row for each two labellers, and one for people and the judge, as AGREEMENT_HEADS says."""
    between = [_agreement(f"{one.first or 'unnamed'} and {one.second}", one) for one in found.between]
    return between + ([] if found.judge is None else [_agreement("people and the judge", found.judge)])


def _agreement(who: str, one: Agreement) -> tuple[str, ...]:
    share = (wording.percent(one.share), wording.interval(one.share_ci95))
    return (who, wording.count(one.n), *share, *_number(one.kappa), *_number(one.alpha))


def _number(one: Estimate) -> tuple[str, str]:
    ends = wording.UNKNOWN if one.ci95 is None else " to ".join(wording.signed(end) for end in one.ci95)
    return wording.UNKNOWN if one.value is None else wording.signed(one.value), ends


def confusion_rows(found: PeopleFound) -> list[tuple[str, ...]]:
    """Return how often the judge said what where people said A, B or tie, as TABLE_HEADS says."""
    return [(one, *(wording.count(row[other]) for other in LABELS)) for one, row in found.table.items()]


def rate_rows(rate: Rate) -> list[tuple[str, ...]]:
    """Return the rate by the judge, by the labels alone, and corrected, as RATE_HEADS says."""
    parts = {
        "labels alone": rate.people,
        "judge corrected by labels (prediction-powered)": rate.prediction_powered,
        "judge corrected by its errors (Rogan–Gladen)": rate.rogan_gladen,
    }
    judge = (f"judge, all {wording.plural(rate.of_all, 'item')}", wording.percent(rate.judge), "")
    return [judge, *((name, wording.percent(one.value), wording.interval(one.ci95)) for name, one in parts.items())]


def lines(found: PeopleFound, blank: int) -> Iterator[str]:
    """Yield how many labels there are, how people agree among themselves, and what is missing."""
    who = ", ".join(f"{name or 'unnamed'} {count}" for name, count in found.labellers.items())
    empty = f"; {wording.plural(blank, 'row')} not filled in" if blank else ""
    yield f"{wording.plural(found.labels, 'label')} of {wording.plural(found.items, 'item')}: {who}{empty}"
    if found.shared:
        value, ends = _number(found.among)
        several = f"{wording.plural(found.shared, 'item')} with several labels"
        yield f"among people, {several}: Krippendorff’s α {value} ({ends})"
    if found.unjudged:
        yield f"{wording.plural(found.unjudged, 'labelled item')} without a verdict of the judge"


def rate_notes(rate: Rate) -> Iterator[str]:
    """Yield what the rate is of, and what its numbers do not say."""
    yield f"how often {rate.of}; a tie or no verdict counts as not"
    if not rate.n:
        yield "no corrected rate: every labelled item was picked, none drawn; --next N --random draws some"
    elif rate.left_out:
        yield f"{wording.plural(rate.left_out, 'item')} that were picked are not in it: they stand for no others"
    if rate.n and rate.rogan_gladen.value is None:
        yield "no Rogan–Gladen rate: people said only one of the two, or the judge is no better than chance"


def apart(found: PeopleFound) -> Iterator[str]:
    """Yield the items on which people and the judge name different sides, the judge's surest first."""
    if found.apart:
        more = len(found.apart) - SHOWN
        told = ", ".join(found.apart[:SHOWN]) + (f" and {more} more: --json lists them" if more > 0 else "")
        yield f"{wording.plural(len(found.apart), 'item')} on which people and the judge name different sides: {told}"


def people_sheet(run: Run, found: PeopleFound, blank: int) -> Parts:
    """Yield all that labels say of a run: `blank` rows of their file were not filled in."""
    yield from (Line(text) for text in (caption(run), *lines(found, blank)))
    for heads, rows in (
        (AGREEMENT_HEADS, agreement_rows(found)),
        (TABLE_HEADS, confusion_rows(found)),
        (RATE_HEADS, rate_rows(found.rate)),
    ):
        yield Line("")
        yield Table(heads, rows, texts=0)
    yield from (Line(text) for text in (*rate_notes(found.rate), *apart(found)))
