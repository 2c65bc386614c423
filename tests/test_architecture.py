"""The shape of the project: rooms import only rooms above them, the checkers import no engine, only cli/ prints."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.draw_architecture import PICTURE, arrows, imports_of, python_files, room_of, sizes

SOURCE = Path(__file__).resolve().parent.parent / "src" / "polvet"
ROOMS = tuple(
    """
    errors verdict choices system budget interrupts numbers files _core model jani prism pddl features worlds sources kernel
    symbolic solvers policy records evidence check confirm workers mdp safety fuzz debug repair verify shield termination
    general domains train campaign acceptance report front cli
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


FILES = python_files()
PAGE = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")


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


SOLVERS = {"z3", "maraboupy", "highspy", "pyscipopt", "dd"}


@pytest.mark.parametrize(
    "file", [f for f in FILES if room_of(f) != "solvers"], ids=lambda f: str(f.relative_to(SOURCE))
)
def test_outside_solvers_are_met_in_their_room_only(file):
    met = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            met |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            met.add((node.module or "").split(".")[0])
    assert not met & SOLVERS


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


def test_the_picture_of_the_rooms_is_current():
    """Rooms and arrows are those of the source, sizes within a fifth; else run python -m docs.draw_architecture."""
    elements = list(ElementTree.fromstring(PICTURE.read_text(encoding="utf-8")).iter())
    drawn = {one.attrib["data-room"]: int(one.attrib["data-lines"]) for one in elements if "data-room" in one.attrib}
    assert set(drawn) == set(sizes()) == set(ROOMS)
    assert {(one.attrib["data-from"], one.attrib["data-to"]) for one in elements if "data-from" in one.attrib} == {
        (room, other) for room, others in arrows().items() for other in others
    }
    assert {room: lines for room, lines in sizes().items() if abs(lines - drawn[room]) > max(100, lines / 5)} == {}


def test_an_arrow_is_drawn_for_every_import_that_no_others_imply():
    graph = arrows()

    def beneath(room):
        return set(graph[room]).union(*(beneath(one) for one in graph[room]))

    for file in FILES:
        assert {room for _, room in imports_of(file) if room in ROOMS} - {room_of(file)} <= beneath(room_of(file))
    assert sum(map(len, graph.values())) < 100


NAMED = re.findall(r"^\|[^|]+\| `([\w/.]+)`(?: `([\w.]+)`)? \|$", PAGE, re.MULTILINE)


def test_the_walks_and_the_twelve_things_are_there():
    assert len(NAMED) == 14 + 19 + 12
    assert all(f"`{heading}" in PAGE for heading in ("polvet verify", "polvet debug", "polvet certify"))


@pytest.mark.parametrize(("place", "name"), NAMED, ids=lambda one: one or "file")
def test_every_place_that_the_page_names_exists(place, name):
    file = SOURCE.parent / place if place.startswith("_core/") else SOURCE / place
    text = file.read_text(encoding="utf-8")
    if not name:
        return
    if file.suffix != ".py":
        assert re.search(rf"\b(class|struct) {name}\b|\b{name}\(", text)
        return
    scope: list[ast.stmt] = ast.parse(text).body
    for part in name.split("."):
        defined = [one for one in scope if part in _defined(one)]
        assert defined, f"{place} defines no {name}"
        scope = getattr(defined[0], "body", [])


def _defined(statement: ast.stmt) -> list[str]:
    """The name that a statement gives to a function, a class or a value."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    return [one.id for one in getattr(statement, "targets", []) if isinstance(one, ast.Name)]


def test_every_word_of_the_glossary_has_a_home():
    glossary = (SOURCE.parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line for line in glossary.splitlines() if line.startswith("| ") and not line.startswith("| word")]
    homes = {row.split("|")[1].strip(): re.fullmatch(r"\| .* \| .* \| `([\w/.]+)` \|", row) for row in rows}
    assert len(homes) == len(rows) > 40
    assert [word for word, home in homes.items() if home is None or not (SOURCE / home.group(1)).exists()] == []
