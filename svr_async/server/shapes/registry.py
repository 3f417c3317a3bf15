"""All routes that answer with judgements, family by family."""

from __future__ import annotations

from svr_async.server.shapes import nemo, openrlhf, ours, slime, vllm
from svr_async.server.shapes.contract import Route

ROUTES: tuple[Route, ...] = (*openrlhf.ROUTES, *slime.ROUTES, *nemo.ROUTES, *vllm.ROUTES, *ours.ROUTES)
