"""Which device a fit runs on."""

from __future__ import annotations

import jax


def device_label() -> str:
    """Return JAX's default device and version in words, e.g. "cpu (TFRT_CPU_0), jax 0.10.2"."""
    device = jax.devices()[0]
    return f"{device.platform} ({device}), jax {jax.__version__}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of JAX's runtime says that memory ran out."""
    text = str(error).lower()
    return "resource_exhausted" in text or "out of memory" in text
