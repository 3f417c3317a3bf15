"""The OpenAI SDK, on aiohttp (`--way aiohttp`) or its own HTTP client (`--way httpx`), its pool as large as needed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai

try:
    from httpx2 import Limits
except ImportError:
    from httpx import Limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Ask, run_pool


def http_client(way: str, in_flight: int) -> Any:
    """Return an HTTP client with a connection for each call in flight."""
    if way == "aiohttp":
        return openai.DefaultAioHttpClient(timeout=600)
    limits = Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    return openai.DefaultAsyncHttpxClient(limits=limits, timeout=600)


@asynccontextmanager
async def client(args: argparse.Namespace) -> AsyncIterator[Ask]:
    http = http_client(args.way, args.in_flight)
    async with openai.AsyncOpenAI(base_url=args.url, api_key="none", max_retries=0, http_client=http) as sdk:

        async def ask(body: dict[str, Any]) -> str:
            done = await sdk.chat.completions.create(**body)
            return done.choices[0].message.content or ""

        yield ask


if __name__ == "__main__":
    run_pool("OpenAI SDK", client)
