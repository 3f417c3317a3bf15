"""Several devices for one solution: each has a part of the pairs, and sums over pairs are added up between them.

What is learned lies whole on every device; only the pairs, which are most of the memory and of the work, are shared
out. Sums are then added in another order than on one device, so the last digits may differ; with one device nothing
of this takes part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import jax
from jax.sharding import Mesh, NamedSharding

from svr_async.errors import UsageError

AXIS = "pairs"
LOCK = threading.RLock()  # programs that wait for each other between devices must not start in two orders

_Spec: Any = jax.sharding.PartitionSpec  # it ships no types
_used: list[Mesh] = []


@contextmanager
def on_devices(count: int | None) -> Iterator[None]:
    """Have solutions use the first `count` devices of JAX's platform; None or 1: one, as ever."""
    if count is None or count == 1:
        yield
        return
    _used.append(_mesh_of(count))
    try:
        yield
    finally:
        _used.pop()


def mesh_in_use(pairs: int) -> Mesh | None:
    """Return the devices that so many pairs are shared out to; None for one device."""
    return _used[-1] if _used and pairs >= _used[-1].size else None


def shared_out(mesh: Mesh) -> NamedSharding:
    """Return how an array with a row for each device lies: a row on each."""
    return NamedSharding(mesh, _Spec(AXIS))


def everywhere(mesh: Mesh) -> NamedSharding:
    """Return how an array lies that every device has whole."""
    return NamedSharding(mesh, _Spec())


def mapped(function: Callable[..., Any], mesh: Mesh, parts: Any) -> Callable[..., Any]:
    """Return a function that runs on each device, with the row of its own of arguments whose place in `parts` is True.

    `parts` is a tuple with a tree of marks for each argument. Results must be the same on all devices.
    """
    specs = jax.tree.map(lambda part: _Spec(AXIS) if part else _Spec(), parts)

    def on_each(*arguments: Any) -> Any:
        own = jax.tree.map(lambda part, values: values[0] if part else values, parts, arguments)
        return function(*own)

    if hasattr(jax, "shard_map"):
        return cast("Callable[..., Any]", _new_map(on_each, mesh, specs))
    import jax.experimental.shard_map as older  # of JAX before 0.8

    shard_map: Any = older.shard_map
    return cast("Callable[..., Any]", shard_map(on_each, mesh=mesh, in_specs=specs, out_specs=_Spec(), check_rep=False))


def _new_map(function: Callable[..., Any], mesh: Mesh, specs: Any) -> Any:
    shard_map: Any = jax.shard_map
    return shard_map(function, mesh=mesh, in_specs=specs, out_specs=_Spec(), check_vma=False)


def _mesh_of(count: int) -> Mesh:
    _have_cpus(count)
    found = jax.devices()
    if len(found) < count:
        kind = found[0].platform
        hint = f"--devices {len(found)}" if len(found) > 1 else "leave --devices out"
        raise UsageError(f"--devices {count}: JAX sees {len(found)} device{'s'[: len(found) > 1]} ({kind})", hint=hint)
    return Mesh(found[:count], (AXIS,))


def _have_cpus(count: int) -> None:
    """Have JAX make this many devices of a CPU, where it runs on one and has not begun."""
    try:
        set_to: Any = jax.config.update
        set_to("jax_num_cpu_devices", count)
    except (RuntimeError, AttributeError):  # it has begun, or is older than the setting
        return
