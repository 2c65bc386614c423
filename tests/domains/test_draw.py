"""Pictures are drawn for every domain and every state, and the gallery shows what the code draws."""

import importlib.util
import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from polvet.domains import CATALOGUE, generate
from polvet.domains.draw import DRAWERS, draw
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics
from polvet.model.task import state_to_names
from tests.domains.worlds import CONTROL, SMALL, named

DOCS = Path(__file__).parents[2] / "docs"


def test_every_domain_has_a_picture() -> None:
    assert set(DRAWERS) == set(CATALOGUE)


@pytest.mark.parametrize("case", [*SMALL, *((name, {}) for name in CONTROL)], ids=named)
def test_every_state_of_a_walk_is_a_well_formed_picture_and_different_states_look_different(case) -> None:  # type: ignore[no-untyped-def]
    name, parameters = case
    task = generate(name, **parameters).task()
    semantics, rng = Semantics(task.network), random.Random(2)
    pictures = set()
    for start in Starts.of(task).sample(4, rng):
        state = start
        for _ in range(12):
            picture = draw(name, state_to_names(task.network, state), **parameters)
            root = ElementTree.fromstring(picture)
            assert root.tag.endswith("svg")
            assert float(root.get("width", 0)) > 20
            pictures.add(picture)
            moves = semantics.moves(state)
            if not moves:
                break
            state = rng.choice(rng.choice(moves).outcomes).state
    assert len(pictures) > 3


@pytest.mark.slow
def test_the_gallery_shows_what_the_code_draws() -> None:
    spec = importlib.util.spec_from_file_location("draw_gallery", DOCS / "draw_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, text in module.files().items():
        assert (DOCS / path).read_text() == text, f"run docs/draw_gallery.py: {path} is out of date"
