"""What importing costs: inference needs no JAX, and the fitter knows no rubrics."""

import ast
import subprocess
import sys
from pathlib import Path

import svr_async.fit

FOLDER = Path(svr_async.fit.__file__).parent
LIGHT = ("arrays", "config", "forward", "history", "ragged", "tfidf")


def test_the_numpy_modules_load_neither_jax_nor_scikit_learn() -> None:
    """Importing what inference needs loads no heavy library."""
    imports = "; ".join(f"import svr_async.fit.{name}" for name in LIGHT)
    check = f"{imports}; import sys; print([m for m in ('jax', 'optax', 'sklearn', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_fitter_imports_only_errors_and_itself() -> None:
    """No module of `fit` knows rubrics, judges or the engine."""
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("svr_async"):
                assert node.module is not None
                assert node.module.startswith(("svr_async.errors", "svr_async.fit")), (path.name, node.module)
