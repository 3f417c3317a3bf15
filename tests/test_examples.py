"""What lies in `examples/` runs: the notebook in a real kernel, the typed file against a simulated endpoint."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from rig import serving

import svr_async as svr
from svr_async.adapters.pair_files import write_rows
from svr_async.core.rubric import Check
from svr_async.judges.rules.registry import rubric_for
from svr_async.scoring.bank import BankRubric

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"
STRICT = "import warnings; warnings.simplefilter('error')"
INTERRUPTED = """
import asyncio, signal, threading
cell = threading.get_ident()
async def endless():
    asyncio.get_running_loop().call_soon(signal.pthread_kill, cell, signal.SIGINT)
    await asyncio.Event().wait()
try:
    svr.run_sync(endless())
except KeyboardInterrupt:
    print("stopped, and then", svr.score_pair(PROMPT, GOOD, POOR, engine=JUDGE).winner)
"""


def html_of(cell: Any) -> str:
    """Return what a cell shows as HTML, all of its outputs."""
    return "".join(one["data"].get("text/html", "") for one in cell["outputs"] if "data" in one)


def text_of(cell: Any) -> str:
    """Return what a cell prints or shows as text, all of its outputs."""
    return "".join(one.get("text", "") or one["data"]["text/plain"] for one in cell["outputs"])


def test_the_notebook_is_kept_without_outputs() -> None:
    """The notebook in the repository has no outputs and no execution counts."""
    cells = nbformat.read(NOTEBOOK, as_version=4)["cells"]  # type: ignore[no-untyped-call]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


def test_the_notebook_runs_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs unchanged, warnings are errors, results are shown as tables, an error with its hint.

    The Python lines of the README run in the same kernel. The stop button, a SIGINT to the kernel, ends a call, and the
    next one works.
    """
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    own = list(book["cells"])
    stopped = nbformat.v4.new_code_cell(INTERRUPTED)  # type: ignore[no-untyped-call]
    failing = nbformat.v4.new_code_cell("svr.Run.load('nowhere')", metadata={"tags": ["raises-exception"]})  # type: ignore[no-untyped-call]
    readme = nbformat.v4.new_code_cell(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0])  # type: ignore[no-untyped-call]
    pairs = [{"prompt": f"Double {n}?", "chosen": f"{2 * n}.", "rejected": "Great question!"} for n in range(60)]
    for name in ("train", "test"):
        write_rows(tmp_path / "runs" / "demo" / f"{name}.jsonl", pairs)
    book["cells"] = [nbformat.v4.new_code_cell(STRICT), *own, stopped, readme, failing]  # type: ignore[no-untyped-call]
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()

    shown = {str(cell["source"]).splitlines()[-1]: cell for cell in own if cell["cell_type"] == "code"}
    assert "rubrics with weights" in shown["bank"]["outputs"][-1]["data"]["text/markdown"]
    for last in ("verdict", "ranking", "run.explain(run.items[0].id)", "svr.compare(run, with_bank)"):
        assert "<table" in html_of(shown[last]), last
    for last in ("verdict", "run"):
        assert "rules (offline checks, no model)" in html_of(shown[last])
    assert "has no item" in text_of(shown["    print(error.one_line())"])
    assert text_of(stopped) == "stopped, and then A\n"
    assert "<Comparison of 2 runs" in text_of(readme)
    (error,) = failing["outputs"]
    assert error["ename"] == "UsageError"
    assert "To fix it: svr runs lists them; svr eval writes one" in "\n".join(error["traceback"])


@pytest.fixture(scope="module")
def library() -> ModuleType:
    """Load the typed example."""
    spec = importlib.util.spec_from_file_location("library_example", ROOT / "examples" / "library.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_typed_example_runs(library: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline: a run, a trained bank, and with one engine verdicts, a ranking and a score."""
    monkeypatch.chdir(tmp_path)
    assert library.evaluated("rules").accuracy == 1.0
    verdicts, ranking, score = asyncio.run(library.many("rules", library.trained("rules")))
    assert [verdict.winner for verdict in verdicts] == ["A", "B"]
    assert ranking.best == 0
    assert score.value is not None


async def test_its_questions_go_through_the_engine(
    library: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a simulated endpoint in place of the rules judge, the same calls ask it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SVR_CACHE", str(tmp_path / "cache"))
    bank = svr.Bank(rubrics=(BankRubric(rubric=rubric_for(Check.of("max_words", n=5))),))
    with serving() as server:
        verdicts, ranking, _ = await library.many(f"{server.base_url}#gpt-oss-120b", bank)
        assert (len(verdicts), ranking.method) == (2, "pairwise")
        assert server.stats()["calls"] > 0
