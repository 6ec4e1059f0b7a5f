"""Rules of the house that no linter knows."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    "path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS))
)
def test_every_test_says_its_promise(path):
    """A test has a docstring; it sleeps only between two looks at the fact that it waits for."""
    tree = ast.parse(path.read_text("utf-8"))
    polling = {id(call) for loop in ast.walk(tree) if isinstance(loop, ast.While) for call in ast.walk(loop)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            assert ast.get_docstring(node), f"{path}:{node.lineno} {node.name} has no docstring"
        if isinstance(node, ast.Call) and id(node) not in polling:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            gives_way = bool(node.args) and ast.unparse(node.args[0]) == "0"
            assert name != "sleep" or gives_way, f"{path}:{node.lineno} sleeps"
