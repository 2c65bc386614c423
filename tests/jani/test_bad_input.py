"""Bad JANI files: each is refused by one message that names the file, the place and the next step."""
# ruff: noqa: E501  (one case per line)

import json
import os

import pytest

from polvet.errors import InputError
from polvet.jani import documents, load_model, load_properties
from tests.jani.conftest import tiny_document


def refusal(file, loader=load_model) -> InputError:
    with pytest.raises(InputError) as caught:
        loader(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    return caught.value


def written(folder, content: str | bytes):
    file = folder / "bad.jani"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


# -- files that are no JSON documents

TEXTS = {
    "an empty file": ("", "bad.jani:1:1: is not JSON: Expecting value"),
    "a broken bracket": ('{"name": "x",\n "automata": [}', "bad.jani:2:15: is not JSON"),
    "a comma too many": ('{"name": "x",}', "bad.jani:1:14: is not JSON"),
    "two documents": ("{} {}", "bad.jani:1:4: is not JSON: Extra data"),
    "a duplicate key": ('{"name": "x", "name": "y"}', "the key 'name' stands twice in one object. Remove"),
    "not a number": ('{"name": NaN}', "NaN is not a JSON number. Write a finite number"),
    "infinity": ('{"name": -Infinity}', "-Infinity is not a JSON number"),
    "a huge integer": ('{"name": ' + "9" * 5000 + "}", "has 5000 digits; at most 400 are read"),
    "a huge exponent": ('{"name": 1e999999}', "the number 1e999999 needs more than 400 digits. Write a number nearer"),
    "a huge exponent of an exponent": ('{"a": 1e99999999999999999999999}', "needs more than 400 digits"),
    "a tiny exponent": ('{"name": 1e-999999}', "the number 1e-999999 needs more than 400 digits"),
    "a long fraction": ('{"name": 0.' + "1" * 401 + "}", "needs more than 400 digits"),
    "lists nested 300 deep": ("[" * 300 + "]" * 300, "the document nests more than 200 deep. Split"),
    "objects nested 5000 deep": ('{"a":' * 5000 + "1" + "}" * 5000, "deep; at most 400 is read"),
    "lists nested 100,000 deep": ("[" * 100_000, "nests 100000 deep; at most 400 is read"),
    "half a character": ('{"name": "\\ud800"}', "is not Unicode. Remove the lone surrogate"),
    "bytes that are no text": (b'{"name": "\xff\xfe"}', "is not UTF-8 text (byte 10). Save the file as UTF-8"),
    "another encoding": ('{"name": "x"}'.encode("utf-16"), "is not UTF-8 text"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_no_document_is_refused(tmp_path, name):
    content, message = TEXTS[name]
    assert message in str(refusal(written(tmp_path, content)))
    assert message in str(refusal(written(tmp_path, content), load_properties))


def test_a_missing_file_is_refused(tmp_path):
    assert "no such file. Check the path." in str(refusal(tmp_path / "none.jani"))


def test_a_folder_is_refused(tmp_path):
    assert "is a folder, not a file. Check the path." in str(refusal(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    file = written(tmp_path, "{}")
    file.chmod(0)
    assert "cannot be read" in str(refusal(file))


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "huge.jani"
    with file.open("wb") as stream:
        stream.truncate(10 * 1024**4)  # sparse: nothing is written
    assert "bytes; at most" in str(refusal(file))


def test_a_document_may_be_as_large_as_its_limit(tmp_path):
    file = written(tmp_path, json.dumps(tiny_document()))
    size = file.stat().st_size
    assert documents.load_document(file, max_bytes=size)["name"] == "tiny"
    with pytest.raises(InputError, match=f"has {size} bytes; at most {size - 1} are read"):
        documents.load_document(file, max_bytes=size - 1)


# -- documents that are no models

DOCUMENTS = {
    "a list": ([], "is a list; a model is an object. Write {"),
    "a number": (1, "is a number; a model is an object"),
    "null": (None, "is null; a model is an object"),
    "an empty object": ({}, "is not a model: the key 'automata' is missing"),
    "properties alone": ({"properties": []}, "Is this a file of properties? Read it beside its model"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_is_no_model_is_refused(tmp_path, name):
    content, message = DOCUMENTS[name]
    error = refusal(written(tmp_path, json.dumps(content)))
    assert message in str(error)


# -- models with one thing wrong: how to break the small model, and what is said

GUARD = ("automata", 0, "edges", 0, "guard", "exp")
EDGE, DESTINATION = GUARD[:4], (*GUARD[:4], "destinations", 0)
ASSIGNMENT = (*DESTINATION, "assignments", 0)
VALUES = ("properties", 0, "expression", "values")
TASK = ("properties", 1, "expression")
GONE = object()

BROKEN = [
    (("jani-version",), "1", "jani-version: is not a version of JANI. Write 1"),
    (("name",), GONE, "the key 'name' is missing: the name of the model"),
    (("name",), 7, "name: is a number; the name of the model is a text. Write it between double quotes"),
    (("name",), "", "name: is empty; the name of the model needs at least one character"),
    (("type",), "mpd", "type: no model type 'mpd'. Did you mean 'mdp'?"),
    (("type",), ["mdp"], "type: is a list; the type of the model is a text"),
    (("features",), "arrays", "features: is a text; a list is expected. Write ["),
    (("features", 0), 3, "features[0]: is a number; a feature is a text"),
    (("metadata",), "me", "metadata: is a text; metadata is an object"),
    (("actions",), {"name": "go"}, "actions: is an object; a list is expected"),
    (("actions", 0), "go", "actions[0]: is a text; an action is an object"),
    (("actions", 0, "name"), None, "actions[0].name: is null; the name of the action is expected"),
    (("actions", 1, "name"), "go", "actions[1].name: the name 'go' of this action is taken by another action"),
    (("constants", 0, "type"), GONE, "constants[0]: the key 'type' is missing: a type"),
    (("constants", 0, "type"), "integer", "constants[0].type: no type 'integer'. Did you mean 'int'?"),
    (("constants", 0, "type"), 5, "constants[0].type: is a number; a type is a text or an object"),
    (("constants", 1, "value"), [], "constants[1].value: is a list; an expression is expected"),
    (("constants", 1, "value", "right"), "M", "constants[1].value: constants depend on each other: M -> M"),
    (("constants", 1, "value", "left"), "n", "constants[1].value.left: no variable or constant 'n' here"),
    (("variables", 0), [], "variables[0]: is a list; a variable is an object"),
    (("variables", 0, "nmae"), "x", None),
    (("variables", 0, "type", "kind"), "bound", "variables[0].type.kind: no kind of type 'bound'. Did you mean 'bounded'?"),
    (("variables", 0, "type", "base"), "bool", "variables[0].type.base: only int and real can be bounded"),
    (("variables", 0, "type", "upper-bound"), -1, "variables[0].type: the bounds 0 to -1 leave no value"),
    (("variables", 0, "type", "lower-bound"), "b", "variables[0].type.lower-bound: no variable or constant 'b' here"),
    (("variables", 0, "initial-value"), -1, "variables[0].initial-value: the value -1 of the variable 'x' is not between"),
    (("variables", 1, "initial-value"), 0, "variables[1].initial-value: the variable 'b' of type bool cannot take"),
    (("variables", 1, "transient"), "yes", "variables[1].transient: is a text; true or false is expected"),
    (("variables", 2, "initial-value"), GONE, "variables[2]: the transient variable 'r' has no initial value"),
    (("variables", 1, "name"), "x", "variables[1].name: the name 'x' of this variable is taken by another variable"),
    (("functions", 0, "parameters", 0, "name"), GONE, "functions[0].parameters[0]: the key 'name' is missing"),
    (("functions", 0, "parameters", 0, "type"), "bool", "functions[0].body: '*' takes a number, not a bool"),
    (("functions", 0, "body"), {"op": "call", "function": "twice", "args": ["p"]}, "functions[0].body: functions call each other"),
    (("functions", 0, "body", "right"), "q", "functions[0].body.right: no variable or constant 'q' here"),
    (("restrict-initial",), True, "restrict-initial: an object with 'exp' is expected. Write {\"exp\": ...}"),
    (("restrict-initial", "exp"), 1, "restrict-initial.exp: a condition is expected, not a value of type int"),
    (("automata",), [], "automata: a model needs at least one automaton"),
    (("automata", 1, "name"), "A", "automata[1].name: the name 'A' of this automaton is taken by another automaton"),
    (("automata", 0, "initial-locations"), GONE, "automata[0]: the key 'initial-locations' is missing"),
    (("automata", 0, "initial-locations"), [], "automata[0].initial-locations: the automaton 'A' starts nowhere"),
    (("automata", 0, "initial-locations", 0), 3, "automata[0].initial-locations[0]: is a number; the name of a location"),
    (("automata", 0, "initial-locations", 0), "ll", "automata[0].initial-locations[0]: no location 'll'. Did you mean 'l'?"),
    (("automata", 0, "locations", 1, "name"), "l", "automata[0].locations[1].name: the name 'l' of this location is taken"),
    (("automata", 0, "locations", 0, "transient-values", 0), {"ref": "y", "value": 1}, "transient-values[0].ref: the variable 'y' is not transient"),
    ((*EDGE, "location"), "m", "automata[0].edges[0].location: no location 'm'"),
    ((*EDGE, "action"), "goo", "automata[0].edges[0].action: no action 'goo'. Did you mean 'go'?"),
    ((*EDGE, "destinations"), [], "automata[0].edges[0].destinations: an edge leads nowhere"),
    ((*EDGE, "guard"), "b", "automata[0].edges[0].guard: an object with 'exp' is expected"),
    (GUARD, None, "automata[0].edges[0].guard.exp: is null; an expression is expected"),
    (GUARD, "xx", "automata[0].edges[0].guard.exp: no variable or constant 'xx' here. Did you mean 'x'?"),
    (GUARD, "", "automata[0].edges[0].guard.exp: a name is empty"),
    ((*GUARD, "op"), "<=", "automata[0].edges[0].guard.exp.op: no operator '<=' in an expression. JANI writes '≤'"),
    ((*GUARD, "op"), "flor", "guard.exp.op: no operator 'flor' in an expression. Did you mean 'floor'?"),
    ((*GUARD, "op"), GONE, "guard.exp: an expression has neither 'op' nor 'constant'"),
    ((*GUARD, "op"), 3, "guard.exp.op: is a number; an operator is a text"),
    ((*GUARD, "op"), "+", "guard.exp: a condition is expected, not a value of type int"),
    ((*GUARD, "left"), GONE, "guard.exp: the key 'left' is missing: an expression"),
    ((*GUARD, "left"), [1], "guard.exp.left: is a list; an expression is expected"),
    ((*GUARD, "left"), "", "guard.exp.left: a name is empty"),
    ((*GUARD, "left"), {"constant": "pi"}, "guard.exp.left.constant: is not a constant of JANI. JANI knows 'π' and 'e'"),
    ((*GUARD, "left"), {"op": "aa", "exp": "x", "index": 0}, "guard.exp.left: an element of an int is asked for"),
    ((*GUARD, "left"), {"op": "call", "function": "twice", "args": []}, "guard.exp.left: the function 'twice' takes 1"),
    ((*GUARD, "left"), {"op": "call", "function": "twic", "args": [1]}, "guard.exp.left: no function 'twic' here. Did you"),
    ((*GUARD, "left"), {"op": "call", "function": "twice", "args": [None]}, "guard.exp.left.args[0]: an expression is"),
    ((*GUARD, "left"), {"op": "call", "function": "twice", "args": 1}, "guard.exp.left.args: is a number; a list is expected"),
    ((*GUARD, "left"), {"op": "let", "variables": [{}], "expression": 1}, "guard.exp.left.variables: variables of 'let'"),
    ((*DESTINATION, "location"), "kk", "automata[0].edges[0].destinations[0].location: no location 'kk'. Did you mean 'k'?"),
    ((*DESTINATION, "probability", "exp"), -0.5, "destinations[0].probability.exp: a probability is -1/2"),
    ((*EDGE, "destinations", 1, "probability", "exp"), 0.7, "edges[0].destinations: the probabilities of an edge sum to 0.95"),
    ((*DESTINATION, "probability", "exp"), "b", "destinations[0].probability.exp: a probability is bool, not a number"),
    ((*ASSIGNMENT, "ref"), GONE, "assignments[0]: the key 'ref' is missing"),
    ((*ASSIGNMENT, "ref"), 3, "assignments[0].ref: is no variable. Assign to a variable"),
    ((*ASSIGNMENT, "ref"), "N", "assignments[0].ref: 'N' is a constant and keeps its value"),
    ((*ASSIGNMENT, "ref"), "z", "assignments[0].ref: no variable 'z'"),
    ((*ASSIGNMENT, "value"), 0.5, "assignments[0].value: the variable 'x' of type int cannot take a value of type real"),
    ((*ASSIGNMENT, "index"), "first", "assignments[0].index: is a text; an index is an integer"),
    ((*DESTINATION, "assignments", 1), {"ref": "x", "value": 1}, "assignments[1].ref: 'x' is assigned twice at index 0"),
    (("system",), GONE, "the key 'system' is missing: the composition of the automata"),
    (("system", "elements"), [], "system.elements: nothing takes part in the system"),
    (("system", "elements", 0, "automaton"), "a", "system.elements[0].automaton: no automaton 'a'"),
    (("system", "elements", 1, "input-enable", 0), "sty", "system.elements[1].input-enable[0]: no action 'sty'. Did you"),
    (("system", "syncs", 0, "synchronise"), ["go"], "system.syncs[0].synchronise: the vector has 1 entries for 2 elements"),
    (("system", "syncs", 0, "synchronise"), [None, None], "system.syncs[0].synchronise: nobody takes part"),
    (("system", "syncs", 0, "synchronise"), "go", "system.syncs[0].synchronise: is a text; a list is expected"),
    (("system", "syncs", 0, "synchronise", 0), "got", "system.syncs[0].synchronise[0]: no action 'got'. Did you mean 'go'?"),
    (("system", "syncs", 0, "result"), "gone", "system.syncs[0].result: no action 'gone'. Did you mean 'go'?"),
    (("properties", 0, "expression"), GONE, "properties[0]: the key 'expression' is missing"),
    (("properties", 1, "name"), "reach", "properties[1].name: the name 'reach' of this property is taken"),
    (("properties", 0, "expression", "fun"), "mean", "properties[0].expression.fun: no filter 'mean'. Use one of min"),
    ((*VALUES, "exp"), "b", "properties[0].expression.values.exp: is a text; a path formula is an object"),
    ((*VALUES, "exp", "op"), "=", "values.exp.op: a path formula is expected here"),
    ((*VALUES, "exp", "right"), "X", "properties[0].expression.values.exp.right: no variable or constant 'X' here"),
    ((*VALUES, "exp", "right"), "x", "values.exp.right: a condition is expected, not a value of type int"),
    ((*VALUES, "exp", "step-bounds"), {}, "values.exp.step-bounds: an interval has neither 'lower' nor 'upper'"),
    ((*VALUES, "exp", "step-bounds"), 3, "values.exp.step-bounds: is a number; an interval is an object"),
    (VALUES, {"op": "Emin", "exp": "x", "accumulate": ["step"]}, "values.accumulate[0]: rewards are not accumulated over 'step'"),
    ((*TASK, "start"), {"file": "../elsewhere.jani"}, "properties[1].expression.start.file: '../elsewhere.jani' lies outside"),
    ((*TASK, "start"), {"file": "none.jani"}, "properties[1].expression.start.file: 'none.jani': no such file"),
    ((*TASK, "start"), {"file": 3}, "properties[1].expression.start.file: is a number; the name of a file is a text"),
    ((*TASK, "start"), {"file": "a\0b"}, "properties[1].expression.start.file: 'a"),
    ((*TASK, "reach", "locations", 0, "location"), "o", "reach.locations[0].location: no location 'o'"),
    ((*TASK, "reach", "locations", 0, "automaton"), "C", "reach.locations[0].automaton: no automaton 'C'"),
    ((*TASK, "reach", "locations", 0, "index"), 1, "reach.locations[0].index: element 1 of the system is not the automaton 'A'"),
    ((*TASK, "reach", "locations", 0, "index"), -1, "reach.locations[0].index: is not the number of an instance"),
    ((*TASK, "objective", "op"), "object", "properties[1].expression.objective.op: an objective is expected"),
    ((*TASK, "predicates", 0), None, "properties[1].expression.predicates[0]: an expression is expected"),
    ((*TASK, "predicates", 1), "x", "properties[1].expression.predicates[1]: a condition is expected"),
]  # fmt: skip


def broken(path, value):
    document = tiny_document()
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    if value is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [pytest.param(*case, id=f"{i}-{'.'.join(map(str, case[0]))}") for i, case in enumerate(BROKEN)],
)
def test_a_model_with_one_thing_wrong_is_refused_with_file_place_and_next_step(tmp_path, path, value, message):
    file = written(tmp_path, json.dumps(broken(path, value)))
    if message is None:
        load_model(file)  # a stray key is only warned of
        return
    error = refusal(file)
    assert message in str(error)


def test_a_reference_to_a_reference_is_refused(tmp_path):
    (tmp_path / "start.jani").write_text('{"file": "start.jani"}')
    file = written(tmp_path, json.dumps(broken((*TASK, "start"), {"file": "start.jani"})))
    with pytest.raises(InputError, match=r"start.jani: an expression has neither 'op' nor 'constant'"):
        load_model(file)


def test_a_file_referred_to_many_times_is_read_once(tmp_path, monkeypatch):
    (tmp_path / "start.jani").write_text('{"op": "state-condition", "exp": "b"}')
    document = tiny_document()
    document["properties"] = [
        {"name": f"p{i}", "expression": {"op": "PA", "start": {"file": "start.jani"}}} for i in range(50)
    ]
    read = []
    load = documents.load_document
    monkeypatch.setattr("polvet.jani.read_tasks.load_document", lambda path: read.append(path) or load(path))
    assert len(load_model(written(tmp_path, json.dumps(document))).properties) == 50
    assert len(read) == 1


def test_a_long_name_is_cut_in_messages(tmp_path):
    error = refusal(written(tmp_path, json.dumps(broken((*GUARD, "op"), "y" * 100_000))))
    assert len(error.what) < 200
