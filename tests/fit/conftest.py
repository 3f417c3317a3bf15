"""Every test of the fitter runs with JAX's strict promotion rules."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def _strict_numerics() -> Iterator[None]:
    """Make a silent change of dtype or rank an error."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield
