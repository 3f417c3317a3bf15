"""A headless Chromium over its DevTools socket on loopback: the real renderer, at any width and colour scheme."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from programs import need

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--disable-extensions", "--remote-debugging-port=0",
)  # fmt: skip


class Page:
    """One tab: navigate, evaluate, take a picture; every request and console error of it is recorded."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.requests: list[str] = []
        self.errors: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one DevTools command and return its result; events on the way are recorded."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = await self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    async def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._socket.receive_json()
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
            self.errors.append(str(message["params"]))
        return message

    async def open(self, file: Path, *, width: int = 1280, scheme: str = "light") -> None:
        """Load a file at a width in CSS pixels and a colour scheme, and wait until it has loaded."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        phone = width < 600
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.call("Emulation.setEmulatedMedia", features=[feature])
        await self.call("Page.navigate", url=file.as_uri())
        while (await self._receive()).get("method") != "Page.loadEventFired":
            pass

    async def run(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page and return its value."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def picture(self, file: Path, *, top: int = 0, height: int | None = None) -> None:
        """Write a PNG of the page, or of a band of it."""
        width, full = await self.run("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": top, "width": width, "height": min(height or full, full - top), "scale": 1}
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240  (one tab, nothing else waits)


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """Start Chromium with an empty profile and yield a blank tab; everything is gone afterwards."""
    binary = need("Chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            binary, *FLAGS, f"--user-data-dir={profile}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            port = await _port(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/json") as answer:
                tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
                async with session.ws_connect(tabs[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """Wait until Chromium has written the port that it listens on."""
    while process.returncode is None:
        lines = _lines(file)
        if len(lines) >= 2:
            return int(lines[0])
        await asyncio.sleep(0.05)
    raise AssertionError(f"Chromium ended with code {process.returncode}")


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
