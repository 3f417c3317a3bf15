"""What `svr eval` says before it begins: flags that change nothing, and a bank that does not decide."""

from __future__ import annotations

from collections.abc import Iterator

from svr_async.evaluation.setup import PreparedRun
from svr_async.judges.templates import load_templates

ENDPOINT_FLAGS = (
    "base_url",
    "concurrency",
    "rpm",
    "tpm",
    "timeout",
    "give_up_after",
    "budget",
    "max_calls",
    "retry_errors",
    "strict_model",
    "prompts",
    "cache",
    "ray",
)


def notes_of(run: PreparedRun, given: frozenset[str]) -> Iterator[str]:
    """Yield which flags change nothing, and that a bank leaves it to the judge; ConfigError for impossible values."""
    yield from _of_endpoints(run, given)
    if "top_k" in given and run.settings.bank is None:
        yield f"--top-k changes nothing: {run.method.name} has no bank to choose rubrics from"
    if run.method.facts.bank is not None and run.method.facts.bank.direct:
        yield (
            "the bank decided unseen prompts no better than a coin when it was fitted, so the judge is asked directly; "
            "--top-k has its rubrics decide all the same"
        )


def _of_endpoints(run: PreparedRun, given: frozenset[str]) -> Iterator[str]:
    if any(judge.profile is not None for judge in run.judges.judges):
        return
    if run.settings.limits.prompts is not None:
        load_templates(run.settings.limits.prompts)
    names = [f"--{name.replace('_', '-')}" for name in ENDPOINT_FLAGS if name in given]
    if names:
        what = "changes" if len(names) == 1 else "change"
        yield f"{', '.join(names)} {what} nothing: judge {run.judges.name} sends nothing"
