"""What the simulated endpoint refuses, in the shape of an OpenAI error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.errors import SvrError


class ApiError(SvrError):
    """An error reply: HTTP status, OpenAI's `type` and `code`, and headers that go with it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str,
        code: str | None,
        headers: Mapping[str, str] | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    @classmethod
    def bad_request(cls, message: str, code: str | None = None) -> ApiError:
        """Return a 400."""
        return cls(400, message, kind="invalid_request_error", code=code)

    @classmethod
    def no_setting(cls, param: str, message: str, code: str) -> ApiError:
        """Return the 400 for a setting that the model does not take."""
        return cls(400, message, kind="invalid_request_error", code=code, param=param)

    @classmethod
    def no_model(cls, name: str) -> ApiError:
        """Return the 404 for a model that is not served."""
        message = f"The model `{name}` does not exist or you do not have access to it."
        return cls(404, message, kind="invalid_request_error", code="model_not_found")

    @classmethod
    def too_long(cls, limit: int, tokens: int) -> ApiError:
        """Return the 400 for a request that does not fit the model's context."""
        message = f"This model's maximum context length is {limit} tokens, but the messages hold {tokens} tokens."
        return cls.bad_request(message, "context_length_exceeded")

    @classmethod
    def bad_key(cls, given: str) -> ApiError:
        """Return the 401 for a wrong or missing key; no part of the key is repeated."""
        message = "Incorrect API key provided." if given else "You did not provide an API key."
        return cls(401, message, kind="invalid_request_error", code="invalid_api_key")

    @classmethod
    def no_quota(cls) -> ApiError:
        """Return the 429 for an account without credit, which waiting does not cure."""
        message = "You exceeded your current quota, please check your plan and billing details."
        return cls(429, message, kind="insufficient_quota", code="insufficient_quota")

    @classmethod
    def rate_limited(cls, what: str, headers: Mapping[str, str]) -> ApiError:
        """Return the 429 for too many requests or tokens a minute."""
        message = f"Rate limit reached on {what} per minute."
        return cls(429, message, kind=what, code="rate_limit_exceeded", headers=headers)

    @classmethod
    def moved(cls, where: str) -> ApiError:
        """Return a 307 to another address."""
        return cls(307, "moved", kind="moved", code=None, headers={"Location": where})

    @classmethod
    def server(cls, status: int, message: str) -> ApiError:
        """Return a 5xx."""
        return cls(status, message, kind="server_error", code=None)

    def payload(self) -> dict[str, Any]:
        """Return the JSON of the error."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}
