"""svr-async: judge preference pairs with rubrics, fast and without losing a call.

    from svr_async import Bank, Engine, evaluate, load_run, rank, score_pair, train

Importing this package reads no file, opens no socket and loads neither aiohttp, NumPy nor JAX: each name below is
loaded when it is first used (PEP 562).
"""

from typing import TYPE_CHECKING, Any

from svr_async.version import __version__

if TYPE_CHECKING:
    from svr_async.engine.concurrency import run_sync
    from svr_async.errors import SvrError
    from svr_async.evaluation.run import EvalResult, Listener, evaluate
    from svr_async.evaluation.run_folder import Run, load_run
    from svr_async.evaluation.settings import EvalSettings
    from svr_async.judges.limits import JudgeLimits
    from svr_async.judges.protocol import Answer, Judge
    from svr_async.reports.explain import Explanation, explain
    from svr_async.scoring.bank import RubricBank as Bank
    from svr_async.serving.engine import Engine
    from svr_async.serving.pairs import PairVerdict, ajudge_pairs, ascore_pair, judge_pairs, score_pair
    from svr_async.serving.ranking import Ranking, arank, rank
    from svr_async.serving.scores import Score, ascore, score
    from svr_async.training.running.settings import TrainSettings
    from svr_async.training.running.train import TrainResult, train

__all__ = [
    "Answer",
    "Bank",
    "Engine",
    "EvalResult",
    "EvalSettings",
    "Explanation",
    "Judge",
    "JudgeLimits",
    "Listener",
    "PairVerdict",
    "Ranking",
    "Run",
    "Score",
    "SvrError",
    "TrainResult",
    "TrainSettings",
    "__version__",
    "ajudge_pairs",
    "arank",
    "ascore",
    "ascore_pair",
    "evaluate",
    "explain",
    "judge_pairs",
    "load_run",
    "rank",
    "run_sync",
    "score",
    "score_pair",
    "train",
]

_HOMES = {
    "Answer": ("judges.protocol", "Answer"),
    "Bank": ("scoring.bank", "RubricBank"),
    "Engine": ("serving.engine", "Engine"),
    "EvalResult": ("evaluation.run", "EvalResult"),
    "EvalSettings": ("evaluation.settings", "EvalSettings"),
    "Explanation": ("reports.explain", "Explanation"),
    "Judge": ("judges.protocol", "Judge"),
    "JudgeLimits": ("judges.limits", "JudgeLimits"),
    "Listener": ("evaluation.run", "Listener"),
    "PairVerdict": ("serving.pairs", "PairVerdict"),
    "Ranking": ("serving.ranking", "Ranking"),
    "Run": ("evaluation.run_folder", "Run"),
    "Score": ("serving.scores", "Score"),
    "SvrError": ("errors", "SvrError"),
    "TrainResult": ("training.running.train", "TrainResult"),
    "TrainSettings": ("training.running.settings", "TrainSettings"),
    "ajudge_pairs": ("serving.pairs", "ajudge_pairs"),
    "arank": ("serving.ranking", "arank"),
    "ascore": ("serving.scores", "ascore"),
    "ascore_pair": ("serving.pairs", "ascore_pair"),
    "evaluate": ("evaluation.run", "evaluate"),
    "explain": ("reports.explain", "explain"),
    "judge_pairs": ("serving.pairs", "judge_pairs"),
    "load_run": ("evaluation.run_folder", "load_run"),
    "rank": ("serving.ranking", "rank"),
    "run_sync": ("engine.concurrency", "run_sync"),
    "score": ("serving.scores", "score"),
    "score_pair": ("serving.pairs", "score_pair"),
    "train": ("training.running.train", "train"),
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
