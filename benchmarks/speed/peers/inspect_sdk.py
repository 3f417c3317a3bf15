"""inspect_ai's model interface: one `generate` a call, outside an evaluation (which adds its log)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, get_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Ask, run_pool


@asynccontextmanager
async def client(args: argparse.Namespace) -> AsyncIterator[Ask]:
    config = GenerateConfig(max_connections=args.in_flight, max_tokens=2048, temperature=0.0, max_retries=0)
    model = get_model("openai/bench", base_url=args.url, api_key="none", config=config, responses_api=False)

    async def ask(body: dict[str, Any]) -> str:
        system, user = (turn["content"] for turn in body["messages"])
        return (await model.generate([ChatMessageSystem(content=system), ChatMessageUser(content=user)])).completion

    yield ask


if __name__ == "__main__":
    run_pool("inspect_ai", client)
