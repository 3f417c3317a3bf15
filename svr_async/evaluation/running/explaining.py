"""One decision of a run with its texts, wherever they are."""

from __future__ import annotations

import os
from pathlib import Path

from svr_async.evaluation.reporting.explain import Explanation, explain_item
from svr_async.evaluation.run_folder import Run, load_run
from svr_async.evaluation.running.view import known_texts
from svr_async.evaluation.setup import texts_of_run


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
