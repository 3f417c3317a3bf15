"""Reaching a Ray cluster, or starting one of this machine for the time of a run; the only file that configures Ray."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import secrets
import socket
from collections import Counter
from dataclasses import dataclass
from typing import Any

from svr_async.errors import UsageError

AUTO, LOCAL = "auto", "local"
NAMESPACE = "svr-async"
CONNECT_S = 10.0
OBJECTS_BYTES = 256 * 2**20  # of a cluster of our own: replies pass through it, none stays
HINT = "pip install 'svr-async[ray]'"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})")
_QUIET = {  # of our own processes; no telemetry leaves, and a cluster of our own listens on loopback alone
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_PROMPT_ENABLED": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_DEDUP_LOGS": "0",
}
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # on any system: 127.0.0.1 is not taken for another address
_AT_HOME = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):\d+")
_AUTH_HINT = "set RAY_AUTH_MODE=token, and the cluster's token in RAY_AUTH_TOKEN or ~/.ray/auth_token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Where a worker works: a node of the cluster, its machine's name, and which of how many workers there it is."""

    node: str
    machine: str
    number: int
    count: int


def need_ray(address: str) -> None:
    """Raise UsageError where Ray is not installed, and for an address where nobody answers; Ray is not loaded yet."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--ray needs Ray, which is not installed", hint=HINT)
    address = _named(address)
    if address in (AUTO, LOCAL):
        return
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise UsageError(
            f"--ray {address[:80]} is no address",
            hint="write HOST:PORT, auto for the cluster of this machine, or local",
        )
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        hint = "ray start --head says the address of a cluster; local starts one here"
        raise UsageError(f"--ray {address}: nobody answers there ({error})", hint=hint) from error


def _named(address: str) -> str:
    return address or os.environ.get("RAY_ADDRESS") or LOCAL


def connect(address: str, at_once: int) -> bool:
    """Connect this process to a cluster; return whether it was in none before, so that it is to leave it again.

    "" is the cluster that $RAY_ADDRESS names, else one of our own, as `local` is: on this machine, for the time of the
    run, with room for `at_once` workers. `auto` is the one that runs on this machine. UsageError where there is none.
    """
    address = _named(address)
    own = address == LOCAL
    _configure(own=own, at_home=own or _AT_HOME.fullmatch(address) is not None)
    import ray

    if ray.is_initialized():
        return False
    logging.getLogger("ray").setLevel(logging.ERROR)
    settings: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": NAMESPACE}
    if own:
        settings |= {"include_dashboard": False, "num_cpus": at_once, "object_store_memory": OBJECTS_BYTES}
        settings |= {"_node_ip_address": "127.0.0.1"}
    try:
        ray.init(address=address, **settings)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UsageError(
            f"--ray {address}: no cluster can be used ({first})", hint="ray status looks at one"
        ) from error
    return True


def _configure(*, own: bool, at_home: bool) -> None:
    """Set what Ray reads of the environment, where the user has not: a cluster of our own has a token of its own."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    mine = token if own and "RAY_AUTH_MODE" not in os.environ else {}
    for name, value in (_QUIET | (_LOOPBACK if at_home else {}) | mine).items():
        os.environ.setdefault(name, value)


def leave() -> None:
    """Leave the cluster; one of our own ends."""
    import ray

    ray.shutdown()


def posts(each: int) -> list[Post]:
    """Return where workers are to work: `each` of them on every node; nodes of one machine count as one folder each."""
    import ray

    nodes = sorted((node["NodeManagerHostname"], node["NodeID"]) for node in ray.nodes() if node["Alive"])
    counts, seen = Counter(machine for machine, _ in nodes), Counter[str]()
    found = []
    for machine, node in (one for one in nodes for _ in range(each)):
        found.append(Post(node=node, machine=machine, number=seen[machine], count=counts[machine] * each))
        seen[machine] += 1
    return found


def actor(kind: type, node: str, job: bytes, *, name: str, elsewhere: bool = False) -> Any:
    """Start an actor on a node, or `elsewhere` where that is gone; it takes none of the CPUs that Ray counts."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node, soft=elsewhere)
    return ray.remote(kind).options(num_cpus=0, name=name, scheduling_strategy=where).remote(job)


def kill(worker: Any) -> None:
    """End an actor at once; one that is gone, or None, is left alone."""
    import ray

    with contextlib.suppress(Exception):
        if worker is not None:
            ray.kill(worker)


def own_node() -> str:
    """Return the node that this process is connected to."""
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return node


def is_alive(node: str) -> bool:
    """Whether a node is still of the cluster; where Ray cannot tell, it is not."""
    import ray

    with contextlib.suppress(Exception):
        return any(one["NodeID"] == node and one["Alive"] for one in ray.nodes())
    return False


def lost_error() -> type[Exception]:
    """Return the error of Ray for what cannot be reached any more."""
    from ray.exceptions import RayError

    kind: type[Exception] = RayError
    return kind


def lacks_us(error: Exception) -> bool:
    """Whether an actor could not begin because its machine has no svr-async, or none with this module."""
    return any(words in str(error) for words in ("No module named", "failed to import"))
