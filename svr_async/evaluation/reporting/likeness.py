"""Whether two runs may be set against each other: what differs in judge, model, data, prompts and settings, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from svr_async.evaluation.run_folder import Run

JUDGE, MODEL, PROMPTS, SETTINGS = "judge", "model", "prompts", "settings"
ALLOWABLE = (JUDGE, MODEL, PROMPTS, SETTINGS)
ASKED_THE_SAME = ("order", "audit_below", "salt", "jury_rule", "escalate_to", "escalate_below")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs between two runs: `kind` is judge, model, data, prompts, settings or partial."""

    kind: str
    text: str


def differences(run: Run, baseline: Run) -> list[Difference]:
    """Return what makes a gap between two runs that of something else than what was changed.

    Method, bank, rubrics and top-k may differ: they are what is tried. The rest must be the same.
    """
    found = [*_partial(run, baseline), *_judges(run, baseline), *_models(run, baseline), *_data(run, baseline)]
    return [*found, *_prompts(run, baseline), *_settings(run, baseline)]


def _partial(run: Run, baseline: Run) -> Iterator[Difference]:
    for name, one in (("run", run), ("baseline", baseline)):
        if not one.complete:
            yield Difference(kind="partial", text=f"partial: the {name} {one.path} did not finish")


def _judges(run: Run, baseline: Run) -> Iterator[Difference]:
    mine, other = _panel(run), _panel(baseline)
    if len(mine) != len(other):
        yield _unlike(JUDGE, "", len(mine), len(other), unit=" judges")
        return
    for one, two in zip(mine, other, strict=True):
        for name in ("name", "model", "max_tokens", "params", "marks"):
            if one.get(name) != two.get(name):
                yield _unlike(JUDGE, "" if name == "name" else name, one.get(name), two.get(name))


def _models(run: Run, baseline: Run) -> Iterator[Difference]:
    """Yield where the endpoint said that other models answered; a run that read all from its cache may not know."""
    for one, two in zip(_panel(run), _panel(baseline), strict=False):
        mine, other = one.get("models_seen") or (), two.get("models_seen") or ()
        if mine and other and list(mine) != list(other):
            yield _unlike(MODEL, "seen", ", ".join(mine), ", ".join(other))


def _data(run: Run, baseline: Run) -> Iterator[Difference]:
    if run.metrics["benchmark"] != baseline.metrics["benchmark"]:
        yield _unlike("data", "benchmark", run.metrics["benchmark"], baseline.metrics["benchmark"])
    mine, other = _part(run, "data").get("digest"), _part(baseline, "data").get("digest")
    if mine != other or mine is None:
        yield _unlike("data", "digest", mine, other)
    mine, other = [(item.id, item.gold) for item in run.items], [(item.id, item.gold) for item in baseline.items]
    if mine != other:
        shared = len(set(mine) & set(other))
        text = (
            f"data: {len(mine)} pairs, the baseline has {len(other)}; {shared} are the same with the same right answer"
        )
        yield Difference(kind="data", text=text)


def _prompts(run: Run, baseline: Run) -> Iterator[Difference]:
    mine, other = _part(run, "prompts"), _part(baseline, "prompts")
    for name in sorted({*mine, *other}):
        if mine.get(name) != other.get(name):
            yield _unlike(PROMPTS, name, mine.get(name), other.get(name))


def _settings(run: Run, baseline: Run) -> Iterator[Difference]:
    mine, other = _part(run, "config"), _part(baseline, "config")
    for name in ASKED_THE_SAME:
        if mine.get(name) != other.get(name):
            yield _unlike(SETTINGS, name.replace("_", "-"), mine.get(name), other.get(name))


def notes_on(run: Run, baseline: Run) -> list[str]:
    """Return what differs and forbids nothing: fingerprints, endpoints, the program's version, coverage."""
    found = []
    for one, two in zip(_panel(run), _panel(baseline), strict=False):
        for name, word in (("fingerprints", "system fingerprint"), ("base_url", "endpoint")):
            if one.get(name) != two.get(name):
                found.append(f"another {word} than the baseline's: {_short(one.get(name))} for {_short(two.get(name))}")
    versions = [one.manifest.get("svr_version") for one in (run, baseline)]
    if versions[0] != versions[1]:
        found.append(f"judged with svr-async {versions[0]}, the baseline with {versions[1]}")
    lost = [one.metrics["n_total"] - one.metrics["n_scored"] for one in (run, baseline)]
    if any(lost):
        found.append(f"pairs without a verdict count as wrong: {lost[0]} of the run, {lost[1]} of the baseline")
    return found


def _panel(run: Run) -> list[Mapping[str, Any]]:
    """Return the facts of every judge of a run."""
    facts = _part(run, "judge")
    judges = facts.get("judges")
    return [one for one in judges if isinstance(one, dict)] if isinstance(judges, list) else [facts]


def _part(run: Run, name: str) -> Mapping[str, Any]:
    return run.manifest.get(name) or {}


def _unlike(kind: str, what: str, mine: object, other: object, unit: str = "") -> Difference:
    name = f"{kind}, {what}" if what else kind
    return Difference(kind=kind, text=f"{name}: {_short(mine)}{unit}, the baseline has {_short(other)}{unit}")


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
