"""World formats are data: every one obeys the laws on a world of its own, and the laws catch formats that break them."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.jani import dump_model
from polvet.model.build import ModelBuilder
from polvet.worlds import FORMATS, World, WorldFile, WorldFormat, check_world_format, format_of

TABLE = '{"format": "table-world/1", "name": "w", "states": 2, "labels": ["go"], "starts": [0], "rows": [[0, 0, ["1/3", 1], ["2/3", 0]]]}'
PRISM = "// a walk\nmdp module m x : [0..3]; [a] x < 3 -> 0.5 : (x' = x + 1) + 0.5 : (x' = 0); endmodule"
DOMAIN = """(define (domain boxes) (:predicates (closed ?b))
 (:action open :parameters (?b) :precondition (closed ?b) :effect (not (closed ?b))))"""
PROBLEM = "(define (problem two) (:domain boxes) (:objects a b) (:init (closed a) (closed b)) (:goal (not (closed a))))"


def walk():
    m = ModelBuilder("walk")
    x = m.int("x", 0, 3, initial=0)
    m.edge("a", guard=x < 3, to={x: x + 1})
    return m.build()


@pytest.fixture(params=list(FORMATS))
def world(request, tmp_path):
    """A format, and a world of it."""
    if request.param == "gym":
        pytest.importorskip("gymnasium")
        return FORMATS["gym"], "gym:FrozenLake-v1"
    texts = {"table": TABLE, "jani": dump_model(walk()), "prism": PRISM, "pddl": PROBLEM}
    (tmp_path / "domain.pddl").write_text(DOMAIN)
    file = tmp_path / f"world{FORMATS[request.param].suffixes[0]}"
    file.write_text(texts[request.param])
    return FORMATS[request.param], str(file)


def test_every_format_obeys_the_laws(world):
    """Contents that are foreign to others are polvet's own beginnings."""
    tried, path = world
    assert format_of(WorldFile(path)) is tried
    found = [str(law) for law in check_world_format(tried, path)]
    assert [law for law in found if not law.startswith("asked about the foreign content")] == []


def _good(tmp_path):
    file = tmp_path / "walk.own"
    file.write_text("own 3\n")

    def read(file):
        words = file.text.split()
        if len(words) != 2 or not words[1].isdecimal() or not 1 <= int(words[1]) <= 99:
            raise InputError("is no walk.", file.where, "Write own LENGTH.")
        m = ModelBuilder("own")
        x = m.int("x", 0, int(words[1]), initial=0)
        m.edge("go", guard=x < int(words[1]), to=[(Fraction(1, 2), {x: x + 1}), (Fraction(1, 2), {})])
        return World(m.build(), {"goal": f"x == {words[1]}"}, ("x",))

    made = WorldFormat("own", "a walk", "`own`", read, lambda file: file.opening.startswith("own "), (".own",))
    assert check_world_format(made, file) == ()
    return made, file


def _changed(good, **changes):
    return {"read": lambda file: replace(good.read(file), **changes)}


def _outside(file):
    m = ModelBuilder("own")
    x = m.int("x", 0, 3, initial=0)
    m.edge("go", to={x: x + 1})
    return World(m.build())


def _drifting(good):
    calls = []

    def read(file):
        calls.append(1)
        found = good.read(file)
        return replace(found, model=replace(found.model, name=f"own{len(calls)}"))

    return read


BROKEN = {
    "does not know its own file": lambda good: {"detects": lambda file: file.path.suffix == ".own"},
    "takes it for its own": lambda good: {"detects": lambda file: True},
    "answers IndexError": lambda good: {"detects": lambda file: file.opening.split()[0] == "own"},
    "ends in ValueError": lambda good: {"read": lambda file: good.read(file) if int(file.text.split()[-1]) else None},
    "another model the second time": lambda good: {"read": _drifting(good)},
    "no role 'win'": lambda good: _changed(good, conditions={"win": "x == 3"}),
    "condition is not understood.*y": lambda good: _changed(good, conditions={"fail": "y == 3"}),
    "condition is not understood.*no property": lambda good: _changed(good, conditions={"fail": "property:p"}),
    "would read 'z'": lambda good: _changed(good, inputs=("z",)),
    "breaks a rule": lambda good: {"read": _outside},
    "does not say in a line": lambda good: {"help": ""},
    "endings are not": lambda good: {"suffixes": ("own",)},
    "the address 'own:' ends in": lambda good: {"is_address": True, "read": lambda file: 1 / 0},
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_law_is_found(law, tmp_path):
    good, file = _good(tmp_path)
    found = check_world_format(replace(good, **BROKEN[law](good)), file)
    assert any(re.search(law, str(one)) for one in found), found


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """A format of another package, as if installed."""
    good, file = _good(tmp_path)
    grid = replace(good, name="steps", is_address=True, read=lambda file: good.read(_as_file(file, tmp_path)))
    monkeypatch.setattr(type(FORMATS), "brought", lambda self: {"own": good, "steps": grid})
    return file


def _as_file(address, folder):
    made = folder / "made.own"
    made.write_text(f"own {address.address.removeprefix('steps:')}")
    return WorldFile(made)


def test_a_brought_format_is_read_by_all_commands(brought, capsys):
    assert run(["explore", str(brought)]) == 0
    assert "4" in capsys.readouterr().out
    task = polvet.load(brought, fail="false")
    assert task.policy({x: "go" for x in range(3)}).verify().verdict is polvet.Verdict.SAFE
    assert task.check("Pmin=? [F goal]").value == pytest.approx(1)


def test_a_brought_address_is_a_world_with_a_digest(brought, tmp_path):
    task = polvet.load("steps:5")
    proof = task.policy({x: "go" for x in range(5)}).verify()
    assert polvet.certify(proof, "steps:5", task.policy({x: "go" for x in range(5)})).accepted
    assert not polvet.certify(proof, "steps:6", task.policy({x: "go" for x in range(6)})).accepted
    saved = polvet.load(task.save(tmp_path / "saved.toml"))
    assert saved.explore().states == 6
    assert saved.decide({"x": 5}, goal_reaching=True).verdict is polvet.Verdict.STRONG_CYCLIC


def test_a_file_of_polvets_own_formats_is_never_read_by_another(tmp_path, monkeypatch):
    good, _ = _good(tmp_path)
    monkeypatch.setattr(type(FORMATS), "brought", lambda self: {"own": replace(good, detects=lambda file: True)})
    (tmp_path / "m.txt").write_text(PRISM)
    assert format_of(WorldFile(tmp_path / "m.txt")) is FORMATS["prism"]


@pytest.mark.parametrize(("name", "text", "says"), [
    ("junk.txt", "hello world", "no world that polvet knows. It reads JANI, PRISM, a PDDL problem, a table of states or a Gymnasium"),
    ("junk.prism", "hello world", "junk.prism:1:1"),
    ("junk.jani", "hello", "junk.jani"),
    ("empty.pm", "", "no module"),
    ("gim:FrozenLake-v1", None, "no such file"),
])  # fmt: skip
def test_what_is_no_world_is_told_where_and_what_to_do(name, text, says, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(polvet.InputError) as error:
        polvet.load(tmp_path / name)
    assert says in str(error.value)


def test_every_format_of_files_is_told_by_its_signature():
    from polvet.worlds.formats import SIGNATURES

    assert [name for name in FORMATS if not FORMATS[name].is_address] == list(SIGNATURES)
    assert all(FORMATS[name].detects is is_told for name, is_told in SIGNATURES.items())
