"""litellm.acompletion, as its documentation shows it, without retries."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a price list on import
import litellm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Ask, run_pool


@asynccontextmanager
async def client(args: argparse.Namespace) -> AsyncIterator[Ask]:
    async def ask(body: dict[str, Any]) -> str:
        named = body | {"model": f"openai/{body['model']}"}
        done = await litellm.acompletion(**named, api_base=args.url, api_key="none", num_retries=0)
        return done.choices[0].message.content

    yield ask


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    run_pool("litellm", client)
