"""A fuzzer: JANI documents changed at random are read, or refused by an InputError; nothing else ever comes out.

Documents are small, so that every case is quick and a hang would be seen: the number of cases is bounded, and so is the
work of each, by counting the steps of the interpreter rather than seconds.
"""

import copy
import json
import logging
import sys
from fractions import Fraction
from random import Random

import pytest

from polvet.errors import InputError, Where
from polvet.jani import dump_model, load_model, load_properties, parse_model
from polvet.jani.documents import parse_document
from polvet.jani.read_expressions import OPERATORS
from polvet.jani.read_properties import PROPERTY_OPERATORS
from polvet.jani.read_tasks import TASK_OPERATORS
from polvet.model.wellformed import check_model
from tests.jani.conftest import BENCHMARKS, tiny_document
from tests.jani.strategies import Maker

CASES = 300
MAX_CALLS = 300_000
SCALARS = (
    None, True, False, 0, 1, -1, 2, 10**399, -(10**30), 0.5, 1.0, -0.25, 1e-300, "", "x", "b", "a", "N", "go", "l", "A",
    "int", "bool", "real", "mdp", "initial", "twice", "\u0000", "π", "x" * 1000, [], {}, [[]], [None], {"exp": 1},
    {"op": "+"}, {"op": "aa", "exp": "a", "index": 1.5}, {"constant": "π"}, {"file": "/etc/hostname"}, {"file": ".."},
    {"kind": "array", "base": "int"}, {"kind": "bounded", "base": "real", "lower-bound": 1, "upper-bound": 0},
)  # fmt: skip
WORDS = (*OPERATORS, *PROPERTY_OPERATORS, *TASK_OPERATORS, "der", "nondet", "Multi", "==")

SIMILAR = ("<", "≤", ">", "≥", "=", "≠", "∧", "∨", "⇒", "+", "-", "*", "%", "min", "max", "pow")


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def places(document):
    """Return every (container, key) of the document."""
    found, pending = [], [document]
    while pending:
        part = pending.pop()
        if isinstance(part, dict | list):
            keys = list(part) if isinstance(part, dict) else range(len(part))
            found += [(part, key) for key in keys]
            pending += [part[key] for key in keys]
    return found


def mutate(document, random: Random):
    """Change one thing: delete, replace, duplicate, exchange, rename, or put another operator."""
    found = places(document)
    if not found:
        return
    container, key = random.choice(found)
    match random.randrange(9):
        case 0:
            del container[key]
        case 1 | 2:
            container[key] = copy.deepcopy(random.choice(SCALARS))
        case 3:
            other, place = random.choice(found)
            if place in other if isinstance(other, dict) else place < len(other):
                container[key] = copy.deepcopy(other[place])
        case 4 if isinstance(container, list):
            container.insert(random.randrange(len(container) + 1), copy.deepcopy(container[key]))
        case 4:
            container[random.choice(("x-", "op", "exp", "name", "left", "value", "index"))] = container.pop(key)
        case 5:
            operators = [(part, "op") for part, name in found if name == "op"]
            if operators:
                part, name = random.choice(operators)
                part[name] = random.choice(WORDS)
        case 6:
            container[key] = {"op": "¬", "exp": container[key]}
        case 7:
            numbers = [(part, name) for part, name in found if type(part[name]) is int]
            if numbers:
                part, name = random.choice(numbers)
                part[name] += random.choice((-1, 1, 10**18))
        case _:
            operators = [part for part, name in found if name == "op" and part[name] in SIMILAR]
            if operators:
                random.choice(operators)["op"] = random.choice(SIMILAR)


class Work:
    """Counts calls of Python functions, so that a case that never ends fails instead."""

    def __enter__(self):
        self.calls = 0

        def count(frame, event, argument):
            self.calls += event == "call"
            if self.calls > MAX_CALLS:
                sys.setprofile(None)
                raise AssertionError(f"more than {MAX_CALLS} calls for one small document")

        sys.setprofile(count)

    def __exit__(self, *_):
        sys.setprofile(None)


def attempt(source, loader, file="m.jani"):
    """Return what the loader makes of the source, None if it refuses it in the right way."""
    try:
        with Work():
            return loader(source)
    except InputError as caught:
        error = caught
    assert str(error).startswith(str(file))
    assert len(str(error)) < 3000
    assert error.hint
    return None


def as_model(text):
    return parse_model(parse_document(text, Where("m.jani")), Where("m.jani"))


def seeds():
    documents = [tiny_document()]
    small = [file for file in sorted(BENCHMARKS.rglob("*.jani")) if file.stat().st_size < 15_000]
    for file in small:
        document = json.loads(file.read_text("utf-8-sig"))
        if isinstance(document, dict) and "automata" in document:
            documents.append(document)
    return documents


@pytest.mark.parametrize(
    ("seed", "cases"), [pytest.param(2, CASES // 3), pytest.param(5, 3 * CASES, marks=pytest.mark.slow)]
)
def test_documents_changed_in_structure_are_read_or_refused(seed, cases):
    random = Random(seed)
    originals = seeds()
    read = 0
    for _ in range(cases):
        document = copy.deepcopy(random.choice(originals))
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            mutate(document, random)
        model = attempt(json.dumps(document), as_model)
        if model is not None:
            read += 1
            assert as_model(dump_model(model)) == model
    # Both ways out are taken often enough to mean something.
    assert cases // 50 < read < cases * 49 // 50


def test_documents_changed_in_bytes_are_read_or_refused(tmp_path):
    random = Random(3)
    file = tmp_path / "m.jani"
    original = json.dumps(tiny_document(), ensure_ascii=False).encode()
    read = 0
    for _ in range(CASES):
        data = bytearray(original)
        for _ in range(random.choice((1, 1, 2, 5))):
            position, width = random.randrange(len(data)), random.randrange(1, 4)
            match random.randrange(4):
                case 0:
                    del data[position : position + width]
                case 1:
                    data[position : position + width] = random.randbytes(width)
                case 2:
                    data[position:position] = random.choice(
                        (b'"', b"{", b"]", b",", b"9", b"e9", b"\\u", b"-", b"\xc3")
                    )
                case _:
                    data[position:position] = data[position : position + 20 * width]
        file.write_bytes(data)
        for loader in (load_model, load_properties):
            read += attempt(file, loader, file) is not None
    assert read > 0


def test_truncated_files_are_refused(tmp_path):
    file = tmp_path / "m.jani"
    original = json.dumps(tiny_document()).encode()
    for length in range(0, len(original), 37):
        file.write_bytes(original[:length])
        with pytest.raises(InputError, match="is not JSON"):
            load_model(file)


def test_random_models_are_well_formed_or_refused():
    accepted = 0
    for seed in range(CASES):
        accepted += attempt(Maker(seed).model(), lambda model: check_model(model) or True, "model") is not None
    assert accepted < CASES


@pytest.mark.parametrize(
    "value", [0, 1.5, True, None, "x", [], {}, [0], {"op": "PA"}, {"op": "filter"}, Fraction(1, 3)]
)
def test_anything_in_the_place_of_anything_is_read_or_refused(value):
    total = len(places(tiny_document()))
    for number in range(total):
        document = tiny_document()
        container, key = places(document)[number]
        container[key] = value
        attempt(document, lambda changed: parse_model(changed, Where("m.jani")))
