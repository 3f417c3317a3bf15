"""The OpenAPI document of a server, and its page for people: both from the routes and their examples."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import orjson

from svr_async.server.shapes.contract import Route
from svr_async.server.shapes.registry import ROUTES
from svr_async.version import __version__

LOOKS = (
    ("/healthz", "Whether the process is there."),
    ("/readyz", "Whether judgements can be had, with counts; 503 while it stops, or while the judge is lost."),
    ("/metrics", "Prometheus metrics (extra `prometheus`)."),
    ("/openapi.json", "This server, as an OpenAPI document."),
)
REFUSALS = {
    "400": "The body is not JSON.",
    "401": "The bearer token is missing or wrong.",
    "408": "The body did not come in time.",
    "409": "A member came again with another response.",
    "413": "The body, or the group, is too large.",
    "422": "The body lacks something, or this server cannot judge it.",
    "429": "Too many requests are under way; ask again after Retry-After.",
}
_NARROW = "<meta name=viewport content='width=device-width'>"
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}pre{overflow:auto}"
)


def document(*, with_token: bool) -> dict[str, Any]:
    """Return the document of all routes."""
    paths: dict[str, Any] = {path: {"post": _operation(route)} for route in ROUTES for path in route.paths}
    paths |= {path: {"get": {"summary": text, "responses": {"200": {"description": "OK"}}}} for path, text in LOOKS}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "svr serve", "version": __version__},
        "paths": paths,
    }
    if with_token:
        found["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        found["security"] = [{"token": []}]
    return found


def _operation(route: Route) -> dict[str, Any]:
    replies = {"200": {"description": "Answered; a fallback is marked.", "content": _example(route.reply)}}
    return {
        "summary": route.summary,
        "description": f"For {route.for_whom}.",
        "parameters": [_parameter(name, text) for name, text in route.query.items()],
        "requestBody": {"required": True, "content": _example(route.body)},
        "responses": replies | {status: {"description": text} for status, text in REFUSALS.items()},
    }


def _parameter(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}


def _example(value: Any) -> dict[str, Any]:
    return {"application/json": {"schema": {}, "example": value}}


def page(facts: Mapping[str, Any]) -> str:
    """Return a small page that names the judge, and shows each route with an example; it loads nothing."""
    rows = "".join(f"<li>{escape(name)}: <b>{escape(str(value))}</b>" for name, value in facts.items())
    looks = "".join(f"<li><a href='{path}'>{path}</a> {escape(text)}" for path, text in LOOKS)
    routes = "".join(map(_section, ROUTES))
    head = f"<!doctype html><html lang=en><meta charset=utf-8>{_NARROW}<title>svr serve</title><style>{_STYLE}</style>"
    return f"{head}<h1>svr serve {escape(__version__)}</h1><ul>{rows}</ul><ul>{looks}</ul>{routes}</html>"


def _section(route: Route) -> str:
    body, reply = (escape(orjson.dumps(one, option=orjson.OPT_INDENT_2).decode()) for one in (route.body, route.reply))
    title = escape(", ".join(route.paths))
    return (
        f"<h2>POST {title}</h2><p>{escape(route.summary)} For {escape(route.for_whom)}.</p>"
        f"<pre>{body}</pre><p>answers, for example,</p><pre>{reply}</pre>"
    )
