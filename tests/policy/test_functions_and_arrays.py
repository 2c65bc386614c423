"""Policies that are Python functions in a file, and Q-tables as arrays and frames: read, verified, certified, written back."""

import io
import json
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import InputError, Where
from polvet.policy import load_policy, save_policy
from polvet.policy.arrays import table_from_numpy

WALK = """
def cautious(state):
    return "right" if state["x"] > 2 else "right"

def rash(state):
    return 0 if state["x"] < 4 else 1

def scored(state):
    return [0.0, float(state["x"])]

def broken(state):
    return "left" if 1 / (state["x"] - 4) > 0 else "right"

def nonsense(state):
    return None

number = 3
"""


def walk():
    m = polvet.ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=4)
    for label, step in (("left", -1), ("right", 1)):
        m.edge(label, guard=(x > 0) & (x < 9), to={x: x + step})
    return m


@pytest.fixture
def folder(tmp_path):
    polvet.load(walk(), fail="x == 0", goal="x == 9", start="x >= 1 && x <= 8").save(tmp_path / "walk.toml")
    (tmp_path / "pilot.py").write_text(WALK)
    return tmp_path


def answer(capsys, *words):
    code = run([str(word) for word in (*words, "--json")])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("name", "verdict"), [("cautious", "safe"), ("rash", "unsafe"), ("scored", "safe")])
def test_a_function_on_the_command_line_is_verified_by_execution(folder, capsys, name, verdict):
    policy = f"{folder / 'pilot.py'}:{name}"
    code, found = answer(capsys, "verify", folder / "walk.toml", policy, "-o", folder / "c.json")
    assert (code, found["verdict"]) == ({"safe": 0, "unsafe": 10}[verdict], verdict)
    assert found["figures"]["policy"]["by_execution"] is True
    assert json.loads((folder / "c.json").read_text())["by_execution"] is True
    code, checked = answer(capsys, "certify", folder / "c.json", "--task", folder / "walk.toml", "--policy", policy)
    assert (code, checked["verdict"]) == (0, "accepted")
    assert "by execution" in checked["claim"]
    assert checked["about"]["by_execution"] is True
    run(["verify", str(folder / "walk.toml"), policy])
    assert "by execution" in capsys.readouterr().out


def test_a_certificate_holds_for_that_file_and_that_function_only(folder, capsys):
    policy = f"{folder / 'pilot.py'}:cautious"
    answer(capsys, "verify", folder / "walk.toml", policy, "-o", folder / "c.json")
    other = f"{folder / 'pilot.py'}:rash"
    assert answer(capsys, "certify", folder / "c.json", "--task", folder / "walk.toml", "--policy", other)[0] == 10
    (folder / "pilot.py").write_text(WALK.replace("> 2", "> 3"))
    assert answer(capsys, "certify", folder / "c.json", "--task", folder / "walk.toml", "--policy", policy)[0] == 10


def test_a_lying_certificate_about_a_function_is_rejected(folder, capsys):
    good, bad = (f"{folder / 'pilot.py'}:{name}" for name in ("cautious", "rash"))
    answer(capsys, "verify", folder / "walk.toml", good, "-o", folder / "c.json")
    claim = json.loads((folder / "c.json").read_text())
    from polvet.policy.identity import policy_sha256

    claim["policy_sha256"] = policy_sha256(bad)
    (folder / "c.json").write_text(json.dumps(claim))
    assert answer(capsys, "certify", folder / "c.json", "--task", folder / "walk.toml", "--policy", bad)[0] == 10


def test_other_commands_take_functions_too(folder, capsys):
    policy = f"{folder / 'pilot.py'}:rash"
    code, found = answer(capsys, "fuzz", folder / "walk.toml", policy, "-o", folder / "runs.jsonl")
    assert code == 10
    assert found["figures"]["unsafe_runs"] > 0
    code, found = answer(capsys, "faults", folder / "walk.toml", policy, "-o", folder / "faults.json")
    assert (code, found["figures"]["faults"]) == (10, 1)
    code, found = answer(capsys, "evaluate", folder / "walk.toml", policy)
    assert found["figures"]["unsafe_percent"] == pytest.approx(100 * 3 / 8)


HELPED = """
import sys
from pack import inner

def choose(state):
    return inner.label()
"""


def helped(folder, label):
    """A function whose answer stands two imports away, in a package beside it."""
    (folder / "helped.py").write_text(HELPED)
    (folder / "pack").mkdir(exist_ok=True)
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "inner.py").write_text("from . import deep\n\ndef label():\n    return deep.LABEL\n")
    (folder / "pack" / "deep.py").write_text(f"LABEL = '{label}'\n")
    return f"{folder / 'helped.py'}:choose"


def test_a_resumed_search_does_not_speak_of_what_a_function_imported_before(folder):
    """In processes of their own: Python keeps what was imported."""
    command = [
        sys.executable,
        "-m",
        "polvet",
        "fuzz",
        "walk.toml",
        "helped.py:choose",
        "-o",
        "runs.jsonl",
        "--runs",
        "64",
    ]
    helped(folder, "left")
    assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 10
    helped(folder, "right")
    assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_the_digest_of_a_function_covers_the_modules_beside_it_and_no_others(folder):
    from polvet.policy.identity import policy_files, policy_sha256

    name = helped(folder, "left")
    files = ["helped.py", "pack/__init__.py", "pack/deep.py", "pack/inner.py"]
    assert [str(file.relative_to(folder)) for file in policy_files(name)] == files
    before = policy_sha256(name)
    (folder / "pack" / "other.py").write_text("x = 1\n")
    assert policy_sha256(name) == before
    helped(folder, "right")
    assert policy_sha256(name) != before


FICKLE = """
def choose(state):
    known = state["x"] in asked
    asked.add(state["x"])
    return ("{first}", "{later}")[known]
"""


@pytest.mark.parametrize(("first", "later"), [("left", "right"), ("right", "left")], ids=["unsafe", "safe"])
def test_a_function_that_does_not_depend_on_the_state_alone_is_an_error_of_its_own(
    folder, capsys, monkeypatch, first, later
):
    """What is seen first would be unsafe or safe; asked again, it answers otherwise."""
    monkeypatch.setattr("builtins.asked", set(), raising=False)
    (folder / "fickle.py").write_text(FICKLE.format(first=first, later=later))
    words = [str(folder / "walk.toml"), f"{folder / 'fickle.py'}:choose"]
    assert run(["verify", *words, "--method", "explicit", "-o", str(folder / "c.json")]) == 30
    assert "does not answer as before" in capsys.readouterr().err
    assert not (folder / "c.json").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cautios", "no function 'cautios'"),
        ("number", "no function 'number'"),
        ("broken", "ZeroDivisionError"),
        ("nonsense", "None"),
    ],
)
def test_what_is_wrong_with_a_function_is_an_input_error(folder, capsys, name, says):
    assert run(["verify", str(folder / "walk.toml"), f"{folder / 'pilot.py'}:{name}"]) == 30
    assert says in capsys.readouterr().err


def test_a_file_that_cannot_be_executed_or_repaired_is_an_input_error(folder, capsys):
    (folder / "odd.py").write_text("import no_such_module_at_all\n")
    assert run(["verify", str(folder / "walk.toml"), f"{folder / 'odd.py'}:f"]) == 30
    assert "no_such_module_at_all" in capsys.readouterr().err
    assert run(["verify", str(folder / "walk.toml"), f"{folder / 'none.py'}:f"]) == 30
    assert run(["debug", str(folder / "walk.toml"), f"{folder / 'pilot.py'}:rash", "-o", str(folder / "out")]) == 30
    assert "cannot be repaired" in capsys.readouterr().err
    policy = polvet.load(folder / "walk.toml").policy(f"{folder / 'pilot.py'}:rash")
    found = policy.faults()
    with pytest.raises(InputError, match="cannot be repaired"):
        policy.repair(found)


def grid_task():
    m = polvet.ModelBuilder("grid")
    x, y = m.int("x", 0, 2, initial=0), m.int("y", 0, 3, initial=0)
    m.edge("east", guard=x < 2, to={x: x + 1})
    m.edge("north", guard=y < 3, to={y: y + 1})
    m.edge("stay", to={x: x})
    return polvet.load(m, fail="x == 2 && y == 1", goal="y == 3")


SCORES = np.random.default_rng(3).normal(size=(3, 4, 3))


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_a_q_table_in_an_array_chooses_by_its_axes_and_is_written_back(tmp_path, ending):
    file = tmp_path / f"q{ending}"
    if ending == ".npy":
        np.save(file, SCORES)
    else:
        np.savez(file, anything=SCORES)
    task = grid_task()
    policy = task.policy(file)
    for x in range(3):
        for y in range(4):
            applicable = [good for good in range(3) if (x < 2, y < 3, True)[good]]
            best = max(applicable, key=lambda k: SCORES[x, y, k])
            assert policy.act({"x": x, "y": y}) == ("east", "north", "stay")[best]
    save_policy(load_policy(file), tmp_path / f"again{ending}")
    again = load_policy(tmp_path / f"again{ending}")
    assert again.rows == load_policy(file).rows


def test_a_repaired_array_is_an_array_of_its_kind(tmp_path):
    numbers = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [2, 2, 2, 2]])
    task = polvet.load(grid_task(), start="x + y >= 0 && !(x == 2 && y == 1)")
    for given in (numbers, np.eye(3)[numbers]):
        policy = task.policy(given)
        found = policy.faults()
        assert len(found)
        better = policy.repair(found)
        assert better.verify().verdict is polvet.Verdict.SAFE
        again = better.object
        assert again.shape == given.shape
        assert again.dtype == given.dtype
        assert task.policy(again).verify().verdict is polvet.Verdict.SAFE
    np.save(tmp_path / "q.npy", numbers)
    policy = task.policy(tmp_path / "q.npy")
    policy.repair(policy.faults()).save(tmp_path / "better.npy")
    assert task.policy(tmp_path / "better.npy").verify().verdict is polvet.Verdict.SAFE


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((3, 4)), "axes of states"),
        (np.zeros((3, 4, 2)), "2 outputs"),
        (np.full((3, 4), 7), "no action 7"),
        (np.full((3, 4, 3), np.nan), "not finite"),
        (np.array(3.0), "shape"),
        (np.array([["a"]]), "array of"),
    ],
)
def test_arrays_that_are_no_policy_are_refused(tmp_path, array, says):
    np.save(tmp_path / "q.npy", array)
    with pytest.raises(InputError):
        grid_task().policy(tmp_path / "q.npy")
    with pytest.raises(InputError, match=says):
        grid_task().policy(array)


def test_an_array_of_objects_is_a_pickle_and_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "boom"), "w"))

    np.save(tmp_path / "q.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="not a readable array"):
        load_policy(tmp_path / "q.npy")
    np.savez(tmp_path / "q.npz", a=SCORES, b=SCORES)
    with pytest.raises(InputError, match="holds the arrays a, b"):
        load_policy(tmp_path / "q.npz")
    (tmp_path / "q.npy").write_bytes(np.lib.format.magic(1, 0) + b"\x10\x00garbage")
    with pytest.raises(InputError):
        load_policy(tmp_path / "q.npy")
    assert not (tmp_path / "boom").exists()
    assert pickle.dumps(1)


def test_pandas_objects_are_tables_in_and_out():
    pandas = pytest.importorskip("pandas")
    task = polvet.load(grid_task(), start="x + y >= 0 && !(x == 2 && y == 1)")
    index = pandas.MultiIndex.from_product([range(3), range(4)])
    chosen = ["east"] * 8 + ["stay"] * 4
    frames = {
        "Series": pandas.Series(chosen, index=index),
        "scores": pandas.DataFrame(
            [[float(label == one) for label in ("east", "north", "stay")] for one in chosen],
            index=index,
            columns=["east", "north", "stay"],
        ),
        "actions": pandas.DataFrame({"x": index.get_level_values(0), "y": index.get_level_values(1), "action": chosen}),
    }
    for name, given in frames.items():
        policy = task.policy(given)
        assert policy.act({"x": 0, "y": 2}) == "east", name
        better = policy.repair(policy.faults())
        assert better.verify().verdict is polvet.Verdict.SAFE, name
        again = better.object
        assert type(again) is type(given), name
        assert again.index.equals(given.index), name
        assert task.policy(again).verify().verdict is polvet.Verdict.SAFE, name
    with pytest.raises(InputError, match="columns"):
        task.policy(pandas.DataFrame({"a": [1]}))


def test_a_damaged_array_is_read_or_refused():
    """Bytes of real files are changed, left out, put in; heads of numpy's files are texts that Python's tokenizer reads."""
    rng, refused = random.Random(0), 0
    sources = []
    for array in (
        np.arange(6).reshape(2, 3),
        np.ones((2, 2, 2), dtype=np.float32),
        np.array([0, 1, 2], dtype=np.uint8),
    ):
        for save in (np.save, np.savez):
            stored = io.BytesIO()
            save(stored, array)
            sources.append(stored.getvalue())
    for _ in range(6_000):
        data = bytearray(rng.choice(sources))
        place, size = rng.randrange(len(data)), rng.randrange(3)
        data[place : place + size] = bytes(rng.choice(b"0123'(),\"<fiuO {}:\x00\xff") for _ in range(rng.randrange(4)))
        try:
            table_from_numpy(bytes(data), Where("q.npy"))
        except InputError:
            refused += 1
    assert 500 < refused < 6_000


@pytest.mark.parametrize("most", [10**5, 10**12])
def test_an_action_of_a_huge_number_takes_no_memory(most):
    stored = io.BytesIO()
    np.save(stored, np.array([[0, most]] * 200))
    with pytest.raises(InputError, match="actions"):
        table_from_numpy(stored.getvalue(), Where("q.npy"))
