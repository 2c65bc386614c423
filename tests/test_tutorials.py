"""What the tutorials show is what their code prints."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


def _program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


tutorials, notebooks = _program("tutorials"), _program("notebooks")
NOTEBOOKS = [page for page in tutorials.pages() if page.stem.startswith("tutorial-")]


@pytest.mark.slow
@pytest.mark.parametrize("page", tutorials.pages(), ids=lambda page: page.stem)
def test_a_tutorial_shows_what_its_code_prints(page):
    for package in tutorials.needed(page):
        pytest.importorskip(package)
    shown = page.read_text(encoding="utf-8")
    assert tutorials.timeless(tutorials.run_page(shown)) == tutorials.timeless(shown)


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_holds_what_its_page_holds(page):
    assert page.with_suffix(".ipynb").read_text(encoding="utf-8") == notebooks.written(page)
    assert f"]({page.stem}.ipynb)" in page.read_text(encoding="utf-8"), "the page leads to its notebook"


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs_and_shows_cards(page, tmp_path, monkeypatch):
    pytest.importorskip("ipykernel")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    done = nbformat.read(notebooks.run(page, tmp_path), as_version=4)
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    cards = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert any('class="polvet-card"' in card for card in cards), "a result shows itself as a card"
    printed = "".join(output.get("text", "") for output in outputs)
    assert not re.search("Traceback|command not found|error:", printed)
    assert nbclient is not None


def test_there_is_a_tutorial_for_each_capability():
    assert [page.stem.split("-")[2] for page in NOTEBOOKS] == [
        "decide",
        "debug",
        "verify",
        "shield",
        "terminates",
        "gym",
        "planning",
        "general",
    ]


def test_times_are_no_output():
    assert tutorials.timeless("took 1.25 s, 3,000 states/s") == tutorials.timeless("took 9.50 s, 12 states/s")
    assert tutorials.timeless("(safe=8, expanded=12)") == tutorials.timeless("(safe=8, expanded=15)")
    assert tutorials.timeless("(safe=8, expanded=12)") != tutorials.timeless("(safe=7, expanded=12)")
    assert tutorials.timeless("risk 0.25") != tutorials.timeless("risk 0.5")
