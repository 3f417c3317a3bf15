"""Pairs shared out to several devices: the same solution, in a process of its own since JAX makes its devices once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from svr_async.fit.mesh import mesh_in_use, on_devices

from svr_async.errors import UsageError


def test_three_devices_solve_what_one_does() -> None:
    """Of 200 pairs, which three do not divide, effects are within 1e-5; a fourth device is refused in one line."""
    script = Path(__file__).with_name("on_devices.py")
    known = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=known, timeout=240)
    found = json.loads(done.stdout)
    assert found["apart"] < 1e-5 < found["largest"]
    assert found["refused"] == "--devices 4: JAX sees 3 devices (cpu) — --devices 3"


def test_one_device_is_used_unless_more_are_asked_for() -> None:
    """No mesh for none or one; more than there are is refused, and nothing is left behind."""
    assert jax.devices()
    for count in (None, 1):
        with on_devices(count):
            assert mesh_in_use(1000) is None
    with pytest.raises(UsageError, match="JAX sees"), on_devices(1000):
        pass
    assert mesh_in_use(1000) is None
