"""The layers have one way down, unsafe serialisers are not used, and importing costs nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from svr_async.commands.main import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "svr_async"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each part may import, besides itself, `errors` and `version`.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "fit": set(),
    "reports": {"evaluation", "scoring", "judges", "engine", "adapters", "core"},
    "engine": {"core"},
    "judges": {"engine", "core"},
    "adapters": {"core"},
    "simulation": {"core"},
    "observability": {"reports", "evaluation", "scoring", "engine", "core"},
    "scoring": {"judges", "engine", "fit", "core"},
    "training": {"scoring", "judges", "engine", "fit", "adapters", "core"},
    "evaluation": {"scoring", "judges", "engine", "adapters", "core"},
    "serving": {"scoring", "judges", "engine", "observability", "adapters", "core"},
    "reproduction": {
        "reports", "training", "evaluation", "scoring", "judges", "engine", "fit", "adapters", "core",
    },
    "library": {
        "reports", "training", "evaluation", "serving", "scoring", "judges", "engine", "adapters", "core",
    },
    "__main__": {"commands"},
    "commands": {
        "reproduction", "reports", "training", "evaluation", "serving", "scoring", "judges", "engine", "fit",
        "adapters", "simulation", "observability", "core",
    },
}  # fmt: skip
# The rooms of a part: which other rooms of the part a room may import. "" are the files outside the rooms.
ROOMS: dict[str, dict[str, set[str]]] = {
    "training": {"": {"bank", "rounds"}, "bank": set(), "rounds": {"bank"}},
    "judges": {"": {"rules"}, "rules": {""}},
    "serving": {"": set(), "server": {""}, "hooks": {""}},
}  # fmt: skip
UNSAFE = {"pickle", "cPickle", "joblib", "cloudpickle", "dill", "shelve", "marshal"}
HEAVY = {
    "aiohttp", "numpy", "pyarrow", "jax", "jaxlib", "optax", "sklearn", "scipy", "rich", "jinja2", "torch", "pandas",
    "huggingface_hub", "matplotlib", "diskcache", "tenacity", "json_repair", "uvloop", "safetensors",
    "opentelemetry", "prometheus_client", "wandb", "mlflow", "trackio",
}  # fmt: skip


COMMAND_MODULES = sorted({place.partition(":")[0] for place, _ in COMMANDS.values()})


def name_of(path: Path) -> str:
    """Return the dotted name of a module; a package's own file has the name of the package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMED = {name_of(path): path for path in MODULES}


def part_of(path: Path) -> str:
    """Return the first folder of a module below the package; its own name for a module at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


class Module(NamedTuple):
    """What the tests ask of a file; of each import its module, line, and whether it is at module level at run time."""

    imports: tuple[tuple[str, int, bool], ...]
    calls: tuple[ast.Call, ...]
    documented: bool
    lines: int


@cache
def read(path: Path) -> Module:
    """Parse a file, once for all tests."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    nodes = tuple(ast.walk(tree))
    calls = tuple(node for node in nodes if isinstance(node, ast.Call) and _may_run_code(node))
    return Module(tuple(_imports(path, tree, nodes)), calls, bool(ast.get_docstring(tree)), text.count("\n"))


def _may_run_code(call: ast.Call) -> bool:
    """Whether a call is one that may run or load code: keeping them all would keep the whole trees."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return name in {"eval", "exec"} or any(word.arg == "allow_pickle" for word in call.keywords)


def imports(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """Return (module, line, whether at module level at run time) for each import of a file, in functions too."""
    return read(path).imports


def _imports(path: Path, tree: ast.Module, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int, bool]]:
    lazy = {id(node) for parent in _outermost_lazy(tree) for node in ast.walk(parent) if node is not parent}
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, id(node) not in lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} has a relative import"
            yield str(node.module), node.lineno, id(node) not in lazy
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = names if node.module == "svr_async" else [name for name in names if name in NAMED]
            yield from ((name, node.lineno, id(node) not in lazy) for name in modules)


def _outermost_lazy(node: ast.AST) -> Iterator[ast.AST]:
    """Return the outermost nodes whose insides are not executed on import."""
    for child in ast.iter_child_nodes(node):
        if _lazy(child):
            yield child
        else:
            yield from _outermost_lazy(child)


def _lazy(node: ast.AST) -> bool:
    """Whether what stands in a node is not executed on import: functions, and blocks for type checkers."""
    checking = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return checking or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


@pytest.mark.parametrize("part", sorted({part_of(path) for path in MODULES}))
def test_no_arrow_points_up(part: str) -> None:
    """A part imports only what lies below it, also inside functions and for type checkers."""
    if part in {"__init__", "errors", "version"}:
        own = [found for found in imports(PACKAGE / f"{part}.py") if found[0].startswith("svr_async.")]
        assert {name for name, _, eager in own if eager} <= {"svr_async.version"}
        assert part == "__init__" or not own  # the front door names what it loads, for type checkers
        return
    allowed = ALLOWED[part] | {part, "errors", "version"}
    for path in MODULES:
        if part_of(path) == part:
            for name, line, _ in imports(path):
                pieces = name.split(".")
                if pieces[0] == "svr_async" and len(pieces) > 1:
                    assert pieces[1] in allowed, f"{path}:{line} imports {name}; {part} may import {sorted(allowed)}"


def room_of(name: str) -> str:
    """Return the room of a module of a part with rooms: the folder below the part, "" outside."""
    pieces = name.split(".")
    return pieces[2] if len(pieces) > 2 and pieces[2] in ROOMS[pieces[1]] else ""


@pytest.mark.parametrize(("part", "room"), [(part, room) for part, rooms in ROOMS.items() for room in rooms])
def test_rooms_of_a_part_have_one_way_down(part: str, room: str) -> None:
    """A room imports of its part only itself and the rooms that are named as below it, also inside functions."""
    allowed = ROOMS[part][room] | {room}
    inside = [path for path in (PACKAGE / part / room).rglob("*.py") if room or path.parent == PACKAGE / part]
    assert inside
    for path in inside:
        for name, line, _ in imports(path):
            if name.startswith(f"svr_async.{part}."):
                assert room_of(name) in allowed, f"{path}:{line} imports {name}; {room or part} may not"


def test_no_modules_import_each_other() -> None:
    """Modules do not import each other in a circle when loaded."""
    left = {name: imported_modules(path) for name, path in NAMED.items()}
    while loose := {name for name, below in left.items() if not below & left.keys()}:
        left = {name: below for name, below in left.items() if name not in loose}
    assert not left, f"in a circle, or above one: {', '.join(sorted(left))}"


def imported_modules(path: Path) -> set[str]:
    """Return the modules of the package that are loaded when a file is imported."""
    return {name for name, _, loaded in imports(path) if loaded} & NAMED.keys()


def test_no_command_imports_another() -> None:
    """What several commands need is outside their folders or below them; the group itself names each."""
    folders = {path.name for path in (PACKAGE / "commands").iterdir() if path.is_dir()}
    files = {name.split(".")[2] for name in COMMAND_MODULES if name.count(".") == 2}
    for path in (PACKAGE / "commands").rglob("*.py"):
        if path.parent == PACKAGE / "commands" and path.stem in {"main", "__init__"}:
            continue
        own = path.relative_to(PACKAGE / "commands").parts[0].removesuffix(".py")
        for name, line, _ in imports(path):
            pieces = name.split(".")
            if name.startswith("svr_async.commands.") and pieces[2] in folders | files:
                assert pieces[2] == own, f"{path}:{line} imports {name}"


def test_no_code_from_data_can_run() -> None:
    """No pickle, joblib or similar, no eval or exec, no arrays with pickles in them."""
    for path in MODULES:
        for name, line, _ in imports(path):
            assert name.split(".")[0] not in UNSAFE, f"{path}:{line} imports {name}"
        for call in read(path).calls:
            assert not (isinstance(call.func, ast.Name) and call.func.id in {"eval", "exec"}), f"{path}:{call.lineno}"
            allow = [word.value for word in call.keywords if word.arg == "allow_pickle"]
            assert all(isinstance(value, ast.Constant) and value.value is False for value in allow), path


def reached_from(*names: str) -> set[Path]:
    """Return the modules that importing these loads, followed through imports at module level."""
    found: set[Path] = set()
    todo = list(names)
    while todo:
        base = ROOT.joinpath(*todo.pop().split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.exists() and path not in found:
                found.add(path)
                todo += [name for name, _, eager in imports(path) if eager and name.startswith("svr_async")]
    return found


HELP = ("svr_async", "svr_async.commands", "svr_async.commands.main")


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_asking_for_help_is_light(name: str) -> None:
    """No module on the way to `svr --help`, or to the help of a command, imports a heavy library at module level."""
    extra = [f"svr_async.commands.{COMMANDS[name][0].partition(':')[0]}"] if name else []
    reached = reached_from(*HELP, *extra)
    assert PACKAGE / "errors.py" in reached
    for path in reached:
        for module, line, eager in imports(path):
            assert not (eager and module.split(".")[0] in HEAVY), f"{path}:{line} imports {module}"


def test_every_module_says_what_it_is_for() -> None:
    """One subject a file, said in its docstring; and no file has grown beyond reading."""
    for path in MODULES:
        assert read(path).documented, path
        assert read(path).lines <= 600, path
