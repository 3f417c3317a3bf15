"""Every test of the fitter runs with JAX's strict promotion rules, and compiles quickly rather than well."""

from collections.abc import Iterator

import jax
import pytest

jax.config.update("jax_disable_most_optimizations", True)  # type: ignore[no-untyped-call]  # programs here run for microseconds


@pytest.fixture(autouse=True)
def _strict_numerics() -> Iterator[None]:
    """Make a silent change of dtype or rank an error."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield
