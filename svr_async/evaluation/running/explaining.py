"""One decision of a run with its texts, wherever they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from svr_async.adapters.source import STDIN
from svr_async.core.pair import prompt_text
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.explain import Explanation, explain_item
from svr_async.evaluation.run_folder import Run, Texts, load_run
from svr_async.evaluation.running.frontier import judged_pairs, settings_of
from svr_async.evaluation.setup import texts_of_run
from svr_async.evaluation.wording import count


def explain(
    run: Run | str | os.PathLike[str], item: str, *, data: Path | None = None, benchmark: str | None = None
) -> Explanation:
    """Take one decision of a run, or of the run in a folder, apart: each rubric's verdicts and signed contribution.

    Texts that the run does not keep are read from `data`, in the format of `benchmark` (the run's own unless given), or
    from the run's own data where that is still as it was. UsageError names the nearest ids where there is no such item.
    """
    loaded = run if isinstance(run, Run) else load_run(run)
    found = explain_item(loaded, item)
    if found.texts is not None and data is None:
        return found
    texts = known_texts(loaded, None)[0] if data is None else texts_of_run(loaded, [item], data, benchmark)
    return explain_item(loaded, item, texts=texts.get(item))


def known_texts(run: Run, data: Path | None) -> tuple[Mapping[str, Texts], tuple[str, ...]]:
    """Return the texts of a run's items by id, and a note where only those are known that the run keeps itself."""
    if data is not None:
        return texts_of_run(run, [item.id for item in run.items], data), ()
    try:
        settings = settings_of(run)
        if settings.data == STDIN:
            raise UsageError("what came on standard input is not kept")
        pairs = judged_pairs(settings, run)
    except SvrError as error:
        known = f"{count(len(run.examples))} of {count(len(run.items))} items"
        return run.examples, (f"Texts of {known} alone: {error.message}. --data PATH names the run's data.",)
    return {
        pair.id: Texts(prompt=prompt_text(pair.prompt), response_a=pair.response_a, response_b=pair.response_b)
        for pair in pairs
    }, ()
