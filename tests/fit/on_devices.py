"""A process with three CPU devices: prints how far solutions on all of them lie from those on one, as JSON."""

from __future__ import annotations

import json
import sys
from functools import partial

import numpy as np
from made_arrays import made_arrays
from scipy.sparse import random as random_sparse
from svr_async.fit.mesh import on_devices
from svr_async.fit.problems import Penalties
from svr_async.fit.sparse_margin import Wanted, solve

from svr_async.errors import UsageError
from svr_async.fit.evidence import judged_z


def main() -> None:
    """Solve on three devices, then on one; JAX has not begun before."""
    z = judged_z(made_arrays(n_pairs=200))
    gates = np.random.default_rng(0).dirichlet([0.5, 0.5], 200)
    alike = random_sparse(12, 12, 0.05, random_state=1)
    alike.setdiag(0)
    wanted = [
        Wanted(
            gates=gates, start=partial(np.zeros, (2, 12)), penalties=Penalties(sparsity=0.1, common=c, diversity=0.01)
        )
        for c in (0.0, 0.3)
    ]
    with on_devices(3):
        shared = solve(z, wanted, alike=alike + alike.T)
    one = solve(z, wanted, alike=alike + alike.T)
    try:
        with on_devices(4):
            refused = ""
    except UsageError as error:
        refused = error.one_line()
    apart = max(float(np.abs(a - b).max()) for a, b in zip(shared, one, strict=True))
    sys.stdout.write(
        json.dumps({"apart": apart, "largest": float(max(each.max() for each in one)), "refused": refused})
    )


if __name__ == "__main__":
    main()
