"""How many tokens a request will cost, before it is sent: an estimate that each reply's usage corrects."""

from __future__ import annotations

from svr_async.engine.request import Request, estimate_tokens

SMOOTH = 0.1


class Weigher:
    """Estimates prompt tokens from characters, and the answer by those so far; both are corrected by usage seen."""

    def __init__(self) -> None:
        self._scale = 1.0  # prompt tokens counted by the endpoint, over our estimate
        self._written: float | None = None

    def weigh(self, request: Request) -> int:
        """Return tokens in and out."""
        written = request.max_tokens / 16 if self._written is None else self._written
        return int(self._scale * estimate_tokens(request.prompt_chars) + min(written, request.max_tokens)) + 1

    def learn(self, request: Request, prompt_tokens: int | None, written: int) -> int:
        """Correct the estimate by what a reply has cost, and return that."""
        self._written = written if self._written is None else self._written + SMOOTH * (written - self._written)
        estimate = estimate_tokens(request.prompt_chars)
        if prompt_tokens:
            self._scale += SMOOTH * (min(4.0, max(0.25, prompt_tokens / estimate)) - self._scale)
        return (prompt_tokens or int(self._scale * estimate)) + written
