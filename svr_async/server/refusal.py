"""A request that is not answered as it was meant: a status and one line."""

from __future__ import annotations

from svr_async.errors import SvrError


class RefusalError(SvrError):
    """A request that is refused with an HTTP status of 4xx."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
