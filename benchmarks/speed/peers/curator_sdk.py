"""bespokelabs-curator: a whole data set through `curator.LLM`, which has its own concurrency and writes its own files.

Its token counter is replaced by a guess from the number of characters: the real one loads its tables from the network.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

folder = tempfile.mkdtemp(prefix="curator-")
os.environ.update(
    CURATOR_CACHE_DIR=folder, HF_HOME=folder, TELEMETRY_ENABLED="false", CURATOR_DISABLE_RICH_DISPLAY="1",
    CURATOR_VIEWER="0", LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_API_KEY="none", HF_DATASETS_OFFLINE="1",
)  # fmt: skip
import tiktoken  # noqa: E402  (after its environment is set)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Meter, bodies, check, emit, options  # noqa: E402  (its folder has just been added)


class Guess:
    """Counts a token for every four characters."""

    def encode(self, text: str, **_: Any) -> range:
        return range(len(text) // 4)


tiktoken.get_encoding = tiktoken.encoding_for_model = lambda *_: Guess()
from bespokelabs import curator  # noqa: E402  (after the counter is replaced)


class Judge(curator.LLM):
    """Sends the messages of a row and checks the verdict."""

    def prompt(self, row: dict[str, Any]) -> list[dict[str, str]]:
        return row["messages"]

    def parse(self, row: dict[str, Any], response: str) -> dict[str, int]:
        return {"rubrics": len(check(response))}


def main() -> None:
    args = options()
    limits = {"max_requests_per_minute": 10**7, "max_tokens_per_minute": 10**10}
    params = {"base_url": args.url, "api_key": "none", "max_concurrent_requests": args.in_flight, "max_retries": 1}
    generation = {"max_tokens": 2048, "temperature": 0.0}
    judge = Judge(
        model_name="gpt-4o-mini", backend="openai", backend_params=params | limits, generation_params=generation
    )
    rows = [{"messages": body["messages"]} for body in bodies(args.calls, args.run)]
    meter = Meter()
    done = judge(rows)
    emit(meter.row("curator", len(getattr(done, "dataset", done)), args.calls))


if __name__ == "__main__":
    main()
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    os._exit(0)
