"""The registry lists cheaply, imports late, and guesses at misspelt names."""

import subprocess
import sys

import pytest

from svr_async.adapters import ADAPTERS, get_adapter
from svr_async.adapters.registry import NAMES
from svr_async.errors import UsageError


def test_every_adapter_describes_itself() -> None:
    """Each adapter has its own name, a title, a licence and a schema; hub files come with a hub id."""
    assert list(ADAPTERS) == list(NAMES)
    assert len(ADAPTERS) == 7
    for name, adapter in ADAPTERS.items():
        assert adapter.name == name
        assert adapter.title
        assert adapter.licence
        assert all(adapter.schema.values())
        assert bool(adapter.hub_id) == bool(adapter.hub_files)


def test_listing_imports_no_adapter_and_nothing_heavy() -> None:
    """Importing the package and listing the names loads neither an adapter nor pyarrow, NumPy or the hub."""
    script = (
        "import sys; from svr_async.adapters import ADAPTERS, load_sample; names = list(ADAPTERS);"
        "heavy = {'pyarrow', 'numpy', 'huggingface_hub', 'aiohttp', 'svr_async.adapters.pairs'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_unknown_names_are_answered_with_a_guess_or_the_list() -> None:
    """A misspelt benchmark is answered with the nearest name, a strange one with all names."""
    with pytest.raises(UsageError) as caught:
        get_adapter("rewardbench-2")
    assert "did you mean rewardbench2?" in caught.value.one_line()
    with pytest.raises(UsageError) as caught:
        get_adapter("xyz")
    assert "there are rubricbench, rewardbench" in caught.value.one_line()
    with pytest.raises(KeyError):
        ADAPTERS["xyz"]
