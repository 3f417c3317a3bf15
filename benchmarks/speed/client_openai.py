"""The OpenAI SDK on its aiohttp client, with as many connections as calls in flight."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Any

import openai
from calls import KEY, measure, options
from client_aiohttp import by_task


async def ask_all(args: Namespace) -> int:
    """Ask all questions with a new client."""
    http = openai.DefaultAioHttpClient(timeout=600)
    async with openai.AsyncOpenAI(base_url=args.url, api_key=KEY, max_retries=0, http_client=http) as sdk:

        async def ask(body: dict[str, Any]) -> str:
            done = await sdk.chat.completions.create(**body)
            return done.choices[0].message.content or ""

        return await by_task(ask, args)


if __name__ == "__main__":
    asyncio.run(measure("sdk", options(), ask_all))
