"""svr-async: judge preference pairs with rubrics, and learn rubrics from preference pairs.

    import svr_async as svr

    run = svr.evaluate(pairs, judge="gpt-4o-mini")
    bank = svr.train(pairs, judge="gpt-4o-mini")

Importing this package reads no file, opens no socket and loads neither aiohttp, NumPy nor JAX: each name below is
loaded when it is first used (PEP 562).
"""

from typing import TYPE_CHECKING, Any

from svr_async.version import __version__

if TYPE_CHECKING:
    from svr_async.engine.concurrency import run_sync
    from svr_async.errors import SvrError
    from svr_async.evaluation.compare import Comparison
    from svr_async.evaluation.run import Listener
    from svr_async.evaluation.run_folder import Run
    from svr_async.judges.protocol import Answer, Judge
    from svr_async.library import Bank, aevaluate, atrain, compare, evaluate, train
    from svr_async.reports.explain import Explanation
    from svr_async.serving.engine import Engine
    from svr_async.serving.pairs import PairVerdict, ajudge_pairs, ascore_pair, judge_pairs, score_pair
    from svr_async.serving.ranking import Ranking, arank, rank
    from svr_async.serving.scores import Score, ascore, score

__all__ = [
    "Answer",
    "Bank",
    "Comparison",
    "Engine",
    "Explanation",
    "Judge",
    "Listener",
    "PairVerdict",
    "Ranking",
    "Run",
    "Score",
    "SvrError",
    "__version__",
    "aevaluate",
    "ajudge_pairs",
    "arank",
    "ascore",
    "ascore_pair",
    "atrain",
    "compare",
    "evaluate",
    "judge_pairs",
    "rank",
    "run_sync",
    "score",
    "score_pair",
    "train",
]

_HOMES = {
    "Answer": ("judges.protocol", "Answer"),
    "Bank": ("library", "Bank"),
    "Comparison": ("evaluation.compare", "Comparison"),
    "Engine": ("serving.engine", "Engine"),
    "Explanation": ("reports.explain", "Explanation"),
    "Judge": ("judges.protocol", "Judge"),
    "Listener": ("evaluation.run", "Listener"),
    "PairVerdict": ("serving.pairs", "PairVerdict"),
    "Ranking": ("serving.ranking", "Ranking"),
    "Run": ("evaluation.run_folder", "Run"),
    "Score": ("serving.scores", "Score"),
    "SvrError": ("errors", "SvrError"),
    "aevaluate": ("library", "aevaluate"),
    "ajudge_pairs": ("serving.pairs", "ajudge_pairs"),
    "arank": ("serving.ranking", "arank"),
    "ascore": ("serving.scores", "ascore"),
    "ascore_pair": ("serving.pairs", "ascore_pair"),
    "atrain": ("library", "atrain"),
    "compare": ("library", "compare"),
    "evaluate": ("library", "evaluate"),
    "judge_pairs": ("serving.pairs", "judge_pairs"),
    "rank": ("serving.ranking", "rank"),
    "run_sync": ("engine.concurrency", "run_sync"),
    "score": ("serving.scores", "score"),
    "score_pair": ("serving.pairs", "score_pair"),
    "train": ("library", "train"),
}


if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used, and keep it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module, own = _HOMES[name]
        value = getattr(import_module(f"{__name__}.{module}"), own)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not, and what the module holds already."""
    return sorted({*globals(), *__all__})
