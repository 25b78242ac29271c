"""Imports point one way, and the library itself needs nothing but Python."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unspool

ROOT = Path(unspool.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"), key=str)

LAYERS = (
    ("events", "lazy"),
    ("message",),
    ("parsing",),
    ("formats",),
    ("__init__",),
    ("compat",),
    ("constrained",),
    ("engines", "models"),
    ("mcp",),
    ("surfaces",),
    ("server",),
    ("lint", "convert"),
    ("cli",),
    ("__main__",),
)
"""A module imports from its own layer's part or from layers before; parts of one layer don't know each other."""
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
NUMBERS = {"numpy", "llguidance", "jsonschema", "referencing", "tokenizers", "torch", "transformers", "mlx"}
"""What constraints may import besides; an engine's own arrays only where one is at hand."""
MCP = {"mcp", "mcp_types", "anyio", "httpx2", "json5", "jwt", "yaml"}
"""What tools of MCP servers may import; the package for their schemas is where constraints have it."""
CORE = ("events", "lazy", "message", "parsing", "formats", "__init__", "compat")
"""What needs only the standard library."""


def part_of(path: Path) -> str:
    """The part of the package that a module belongs to: its first folder or its own name."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The absolute name of every module that a module imports, anywhere in it, with the line."""
    package = ["unspool", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # What is imported from a package may be one of its modules.
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def imported_part(name: str) -> str:
    """The part of the package that an imported name lives in."""
    inside = name.split(".")[1:2]
    return inside[0] if inside and inside[0] in {part_of(path) for path in MODULES} else "__init__"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_layers_before_its_own(path: Path) -> None:
    part = part_of(path)
    assert part in RANK, f"{part} has no place in LAYERS yet"
    for line, name in imported(path):
        if name.split(".")[0] == "unspool":
            other = imported_part(name)
            assert other == part or RANK[other] < RANK[part], f"{path}:{line} imports {name}"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if part_of(path) in CORE], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_core_imports_only_the_standard_library(path: Path) -> None:
    packages = {name.split(".")[0] for _, name in imported(path)}
    assert packages <= {"unspool", *sys.stdlib_module_names}


@pytest.mark.parametrize(
    "path", [path for path in MODULES if part_of(path) == "constrained"], ids=lambda path: path.name
)
def test_constraints_import_only_what_their_extra_brings(path: Path) -> None:
    packages = {name.split(".")[0] for _, name in imported(path)}
    assert packages <= {"unspool", *NUMBERS, *sys.stdlib_module_names}


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) == "mcp"], ids=lambda path: path.name)
def test_mcp_imports_only_what_its_extra_brings(path: Path) -> None:
    packages = {name.split(".")[0] for _, name in imported(path)}
    assert packages <= {"unspool", *MCP, *sys.stdlib_module_names}


def test_the_server_loads_neither_masks_nor_mcp_until_they_are_used() -> None:
    script = "import sys, unspool.server.app, unspool.cli.serve; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "llguidance", "mcp", "mcp_types", "httpx2", "jsonschema"} & set(run.stdout.split())


def test_mcp_loads_nothing_of_other_extras() -> None:
    script = "import sys, unspool.mcp.manager, unspool.mcp.checking; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "llguidance", "tokenizers", "orjson", "jinja2"} & set(run.stdout.split())


@pytest.mark.parametrize(
    "use",
    [
        "import unspool",
        "import unspool; unspool.parse('qwen3', 'Hello')",
        "import unspool; [unspool.explain(fmt, 'Hello') for fmt in unspool.formats()]",
        "import unspool.constrained",
        "from unspool.constrained import BoundaryTracker; BoundaryTracker([1], [2], budget=3).accept(1)",
        "import unspool.mcp.tools",
        "from unspool.compat import *; get_tool_parser('hermes')().extract_tool_calls('Hello')",
    ],
)
def test_using_the_library_loads_no_other_package(use: str) -> None:
    script = f"import sys; before = set(sys.modules); {use}; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "unspool" in loaded
    assert loaded <= {"unspool", *sys.stdlib_module_names}
