"""An endpoint for a long day, as a script: of its replies 5 % are 256 KB of nothing, some are late, some the last.

    python tests/reliability/rough_server.py    # prints its port; ends with its standard input

Nothing is drawn: the Nth call of a kind is treated alike in each run.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys

BROKEN, LAST, LATE = 20, 50, 200  # one call in so many
LATE_S = 0.3
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
MESSAGE = {"role": "assistant", "content": "Yes."}
USAGE = {"prompt_tokens": 9, "completion_tokens": 1}
GOOD = json.dumps(
    {"id": "c", "model": "m", "usage": USAGE, "choices": [{"message": MESSAGE, "finish_reason": "stop"}]}
).encode()
JUNK = (b'{"choices": [{"message": ' + b'[{"x": "y"}, ' * 20_000)[: 256 * 1024]
_calls = itertools.count(1)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the calls of one connection."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(int(size.split(b":")[1]))
            number = next(_calls)
            if number % LATE == 0:
                await asyncio.sleep(LATE_S)
            if number % BROKEN == 0:  # half of them whole, but no JSON, the others cut off
                writer.write(HEAD % (len(JUNK) + (number // BROKEN % 2)) + JUNK)
            else:
                writer.write(HEAD % len(GOOD) + GOOD)
            await writer.drain()
            if number % LAST == 0 or number % (2 * BROKEN) == BROKEN:
                return
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def serve() -> None:
    """Listen until standard input ends."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
