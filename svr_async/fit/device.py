"""Which devices a fit may run on."""

from __future__ import annotations

from typing import Any

import jax


def device_label() -> str:
    """Return JAX's default device and version in words, e.g. "cpu (TFRT_CPU_0), jax 0.10.2"."""
    device = jax.devices()[0]
    return f"{device.platform} ({device}), jax {jax.__version__}"


def devices_in_words() -> str:
    """Return all devices of JAX's platform, e.g. "gpu: 2 devices (NVIDIA H100 80GB HBM3, 59.4 GiB each), jax 0.10.2".

    The memory is what JAX may take of each, where its runtime tells; of a CPU it does not.
    """
    found: list[Any] = jax.devices()
    stats = found[0].memory_stats() or {}
    limit = stats.get("bytes_limit")
    memory = f", {limit / 2**30:.1f} GiB{' each' if len(found) > 1 else ''}" if limit else ""
    count = f"{len(found)} device{'s' if len(found) > 1 else ''}"
    return f"{found[0].platform}: {count} ({found[0].device_kind}{memory}), jax {jax.__version__}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of JAX's runtime says that memory ran out."""
    text = str(error).lower()
    return "resource_exhausted" in text or "out of memory" in text
