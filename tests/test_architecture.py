"""The shape of the project: rooms import only rooms above them, the checkers import no engine, only cli/ prints."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "polvet"
ROOMS = tuple(
    """
    errors system budget interrupts numbers files _core model jani prism pddl worlds sources kernel symbolic solvers policy
    records check confirm workers mdp safety fuzz debug repair verify shield termination domains train campaign acceptance report front cli
    """.split()  # noqa: SIM905
)
ENGINES = {
    "safety",
    "fuzz",
    "debug",
    "repair",
    "verify",
    "shield",
    "termination",
    "mdp",
    "kernel",
    "symbolic",
    "solvers",
}


def imports_of(file: Path) -> list[tuple[int, str]]:
    """Every room of polvet that the file imports, with the line."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == "polvet":
            names = [f"polvet.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("polvet."):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("polvet.")]
        found += [(node.lineno, name.split(".")[1]) for name in names]
    return found


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if room_of(file) not in ("__init__", "__main__")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_above_it(file):
    floor = ROOMS.index(room_of(file))
    uphill = [(line, room) for line, room in imports_of(file) if room in ROOMS and ROOMS.index(room) > floor]
    assert not uphill


@pytest.mark.parametrize("file", [f for f in FILES if room_of(f) == "check"], ids=lambda file: file.name)
def test_evidence_imports_no_engine(file):
    assert not [(line, room) for line, room in imports_of(file) if room in ENGINES]


@pytest.mark.parametrize("file", [f for f in FILES if room_of(f) == "model"], ids=lambda file: file.name)
def test_the_model_needs_the_standard_library_alone(file):
    allowed = {*sys.stdlib_module_names, "polvet"}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] in allowed


def test_every_room_opens_with_a_sentence():
    for room in sorted({file.parent for file in FILES if file.parent != SOURCE}):
        init = room / "__init__.py"
        assert init.exists(), f"{room.name} has no __init__.py"
        assert ast.get_docstring(ast.parse(init.read_text())), f"{room.name} does not say what it is"


def test_one_header_of_the_kernels_names_what_compilers_do_differently():
    words = re.compile(
        r"__builtin_|__attribute__|__int128|__extension__|\bM_PI\b|<unistd\.h>|<sys/|__x86_64__|_WIN32|\blong [a-z]+ ="
    )
    core = SOURCE.parent / "_core"
    files = [file for file in sorted(core.glob("*/*")) if file.name != "portable.h"]
    assert words.search((core / "store" / "portable.h").read_text())
    assert len(files) > 50
    assert {file.name: words.findall(file.read_text()) for file in files if words.search(file.read_text())} == {}


def test_the_version_stands_in_one_place():
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert "version" not in project["project"]
    source = SOURCE.parents[1] / project["tool"]["scikit-build"]["metadata"]["version"]["input"]
    assert re.search(r'^__version__ = "\d+\.\d+\.\d+', source.read_text(), re.MULTILINE)
