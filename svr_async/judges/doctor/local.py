"""What `svr doctor` checks on this machine: cache, disk, kind of file system, device."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from svr_async.errors import StorageError, SvrError
from svr_async.judges.doctor.findings import Finding, failed

CUDA_PACKAGES = ("jax-cuda13-plugin", "jax-cuda12-plugin")
MIN_FREE_BYTES = 200 * 2**20


def checked(name: str, look: Callable[[], Finding]) -> Finding:
    """Return what a check finds, or the error that it raises."""
    try:
        return look()
    except SvrError as error:
        return failed(name, error)


def no_judge() -> Finding:
    """Say that no endpoint was looked at, and how to have one examined."""
    cure = "--judge J examines its endpoint: key, model, limits, speed"
    return Finding(name="judge", state="none", text="none is named", cure=cure)


def cache_finding(cache: Path | str) -> Finding:
    """Open the cache and read all of it."""
    from svr_async.engine.cache import Cache

    with closing(Cache.open(cache)) as opened:
        damaged = opened.stats().damaged
    if damaged:
        cure = "damaged rows are asked again when needed"
        return Finding(name="cache", state="warn", text=f"{cache} has {damaged:,} damaged rows", cure=cure)
    if opened.writable:
        return Finding(name="cache", state="ok", text=f"{cache} opens")
    cure = "only what is there can be used: --offline, or --cache DIR"
    return Finding(name="cache", state="warn", text=f"{cache} opens for reading only", cure=cure)


def disk_finding(cache: Path) -> Finding:
    """Check the free space on the disk of the cache."""
    import shutil

    place = next((one for one in (cache, *cache.absolute().parents) if one.exists()), Path.cwd())
    free = shutil.disk_usage(place).free
    if free < MIN_FREE_BYTES:
        raise StorageError(f"only {free / 2**20:.0f} MiB are free for the cache {cache}", hint="free some space")
    return Finding(name="disk", state="ok", text=f"{free / 2**30:.1f} GiB free")


def device_finding(label_of: Callable[[], str], devices: Path = Path("/dev")) -> Finding:
    """Say what a fit would run on, as `label_of` tells once JAX is loaded; a GPU that it does not use is a warning.

    JAX reaches an NVIDIA GPU by a package beside jaxlib; the kernel shows each GPU as a file nvidiaN of `devices`.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # looking takes no memory from others
    try:
        label = label_of()
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed: judging works, training does not"
        return Finding(name="device", state="warn", text=text, cure="pip install svr-async brings all of it")
    except RuntimeError as error:
        cure = "JAX_PLATFORMS=cpu runs without it"
        return Finding(name="device", state="warn", text=f"JAX finds no device: {str(error)[:200]}", cure=cure)
    cuda = _cuda_package()
    text = f"{label}, {cuda or 'without CUDA'}"
    if label.startswith("cpu") and any(devices.glob("nvidia[0-9]*")):
        return Finding(name="device", state="warn", text=f"{text}, though there is an NVIDIA GPU", cure=_gpu_cure(cuda))
    return Finding(name="device", state="ok", text=text)


def _cuda_package() -> str:
    """Return name and version of the package by which JAX reaches NVIDIA GPUs; empty where there is none."""
    for name in CUDA_PACKAGES:
        with suppress(PackageNotFoundError):
            return f"{name} {version(name)}"
    return ""


def _gpu_cure(cuda: str) -> str:
    if not cuda:
        return "pip install 'svr-async[gpu]' to fit on it; judging needs none"
    if os.environ.get("JAX_PLATFORMS"):
        return f"JAX_PLATFORMS={os.environ['JAX_PLATFORMS']} keeps JAX from it"
    return "JAX_PLATFORMS=cuda svr doctor says why JAX cannot use it; nvidia-smi shows the driver"
