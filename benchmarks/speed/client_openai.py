"""The OpenAI SDK on its aiohttp client, with as many connections as calls in flight."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Any

import openai
from calls import KEY, Meter, options
from client_aiohttp import by_task


async def main(args: Namespace) -> None:
    meter = Meter()
    http = openai.DefaultAioHttpClient(timeout=600)
    async with openai.AsyncOpenAI(base_url=args.url, api_key=KEY, max_retries=0, http_client=http) as sdk:

        async def ask(body: dict[str, Any]) -> str:
            done = await sdk.chat.completions.create(**body)
            return done.choices[0].message.content or ""

        answered = await by_task(ask, args)
    meter.emit("sdk", answered, args.calls)


if __name__ == "__main__":
    chosen = options()
    asyncio.run(main(chosen))
