"""The reference pages are right: their files load, their certificates are accepted, their keys are those that are read and written."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import polvet
import polvet.files
from polvet.check.checker import CHECKERS, Accepted, Subjects, check_file
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.policy import load_policy, rules, tables
from polvet.policy.binding import load_fitted
from polvet.policy.finite_memory import fmp_json, qnp
from polvet.policy.finite_memory.load import load_fmp
from polvet.records.fault_files import read_faults
from polvet.records.run_files import iter_runs
from polvet.records.state_files import iter_states
from polvet.shield.file import load_shield
from polvet.shield.tree import load_tree
from polvet.sources import POLICY_KEYS, TASK_KEYS, load_task
from polvet.worlds import table_file
from tests.pages import DOCS, files_in, listed, section

SOURCE = Path(__file__).resolve().parent.parent / "src" / "polvet"
PAGE = "formats.md"
BY_NAME = re.compile(r"\.(x|left|right)$|^options\.")
"""Keys that are no words of the format: variables, labels, and options as they were given."""


@pytest.fixture
def shown(tmp_path):
    """The folder with all files of the page."""
    for name, text in files_in(PAGE).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_page_shows_every_file_once(shown):
    assert sorted(file.name for file in shown.iterdir()) == sorted(
        """walk.prism walk.toml walk.table table.json rules.json states.jsonl runs.jsonl faults.json shield.json tree.json decisions.jsonl
        scheduler.json plan.json run.json safe.json reach.json rank.json""".split()  # noqa: SIM905
    )


def test_the_table_of_the_page_is_the_walk(shown):
    walk, table = polvet.load(shown / "walk.toml"), polvet.load(shown / "walk.table")
    assert [one.decide({name: k}).verdict.value for one, name in ((walk, "x"), (table, "s")) for k in (1, 2, 3)] == [
        "safe"
    ] * 6
    lefts = walk.policy({1: "left", 2: "left", 3: "left"}), table.policy({1: "left", 2: "left", 3: "left"})
    risks = [policy.verify(probability=True).figures for policy in lefts]
    assert risks[0]["probability_upper"] == pytest.approx(risks[1]["probability_upper"])


def test_policies_of_the_page_choose_what_they_say(shown):
    task = load_task(shown / "walk.toml")
    table, ruled = load_fitted(task, shown / "table.json"), load_fitted(task, shown / "rules.json")
    assert [table.choose((x,), {"left", "right"}) for x in (1, 2, 3)] == ["left", "right", "right"]
    assert [ruled.choose((x,), {"left", "right"}) for x in (1, 2, 3)] == ["right", "left", "left"]


def test_states_runs_and_decisions_of_the_page_are_read(shown):
    task = load_task(shown / "walk.toml")
    assert list(iter_states(task, shown / "states.jsonl")) == [(1,), (2,), (3,), (4,)]
    assert list(iter_states(task, shown / "decisions.jsonl")) == [(1,), (2,), (3,), (4,)]
    (one,) = iter_runs(task, shown / "runs.jsonl")
    assert one.states == ((1,), (0,))
    assert one.actions == ("left",)


def test_faults_of_the_page_are_those_of_its_table(shown, capsys):
    assert run(["faults", str(shown / "walk.toml"), str(shown / "table.json"), "-o", str(shown / "again.json")]) == 10
    task = load_task(shown / "walk.toml")
    assert read_faults(task, shown / "faults.json") == read_faults(task, shown / "again.json")


def test_shields_of_the_page_answer(shown):
    shield, tree = load_shield(shown / "shield.json"), load_tree(shown / "tree.json")
    assert shield.allowed({"x": 1}) == tree.allowed({"x": 1}) == ("right",)
    assert shield.risk({"x": 1}) == Fraction(13, 44)
    assert shield.mixtures({"x": 1})[0]["left"] == Fraction(9, 10)


def test_the_plan_of_the_page_ends(shown, capsys):
    assert load_fmp(shown / "plan.json").name == "empty the crates"
    assert run(["terminates", str(shown / "plan.json")]) == 0


@pytest.mark.parametrize(
    ("name", "task", "policy"),
    [
        ("run.json", "walk.toml", "table.json"),
        ("safe.json", "walk.toml", None),
        ("reach.json", "walk.toml", "rules.json"),
        ("shield.json", "walk.toml", None),
        ("rank.json", "plan.json", None),
    ],
)
def test_certificates_of_the_page_are_accepted(shown, name, task, policy):
    judged = check_file(shown / name, Subjects(shown / task, None if policy is None else shown / policy))
    assert isinstance(judged, Accepted), judged


def test_every_kind_of_certificate_is_told():
    text = section(PAGE, "Certificates")
    assert listed(text, "kind") == set(CHECKERS)
    assert listed(text) == {"kind", "format", "task_sha256", "policy_sha256", "by_execution", "options", "kept"}


def test_every_part_that_a_checker_asks_of_a_certificate_is_told():
    text = section(PAGE, "Certificates")
    rows = {
        kind: set(re.findall(r"`([a-z_0-9]+)`", rest))
        for kind, rest in re.findall(r"^\| `([a-z-]+)` \|(.*)$", text, re.M)
    }
    for module in {place.split(":")[0] for place in CHECKERS.values()}:
        told = set().union(
            listed(text), *(rows[kind] for kind, place in CHECKERS.items() if place.startswith(f"{module}:"))
        )
        source = (SOURCE.parent / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
        asked = set(re.findall(r'certificate(?:\.get\(|\[)"(\w+)"', source))
        if module != "polvet.check.permissive":  # a shield: its own section
            assert asked <= told, module


def test_every_format_of_the_sources_is_told():
    named = {
        found
        for file in SOURCE.rglob("*.py")
        for found in re.findall(r'"([a-z-]+/\d+)"', file.read_text(encoding="utf-8"))
    }
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    assert {"table/1", "faults/1", "fmp/1"} <= named
    assert not {one for one in named if f"`{one}`" not in page and f'"{one}"' not in page}


def test_the_keys_of_files_that_people_write_are_those_that_are_accepted():
    def below(head: str, keys: tuple[str, ...]) -> set[str]:
        return {f"{head}{key}" for key in keys}

    assert listed(section("task-file.md", "The task file")) == {*TASK_KEYS, *below("policy.", POLICY_KEYS)}
    assert listed(section(PAGE, "`table-world/1`")) == {*table_file.KEYS}
    assert listed(section(PAGE, "`table/1`")) == {*tables.KEYS, *below("rows[].", tables.ROW_KEYS)}
    assert listed(section(PAGE, "`rules/1`")) == {*rules.KEYS, *below("rules[].", (*rules.RULE_KEYS, *qnp.MEMORY_KEYS))}
    assert listed(section(PAGE, "`fmp/1`")) == {
        *fmp_json.KEYS,
        *below("variables[].", fmp_json.VARIABLE_KEYS),
        *below("edges[].", fmp_json.EDGE_KEYS),
        *below("edges[].choices[].", fmp_json.CHOICE_KEYS),
        *below("edges[].choices[].effects.", fmp_json.EFFECT_KEYS),
    }


class Read(dict[str, Any]):
    """A JSON object that notes which of its keys are asked for."""

    def __init__(self, values: dict[str, Any], path: str, asked: set[str]) -> None:
        super().__init__({key: noting(value, f"{path}{key}", asked) for key, value in values.items()})
        self.path, self.asked = path, asked

    def __getitem__(self, key: str) -> Any:
        self.asked.add(self.path + key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(self.path + key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(self.path + str(key))
        return super().__contains__(key)


def noting(value: Any, path: str, asked: set[str]) -> Any:
    if isinstance(value, dict):
        return Read(value, f"{path}." if path else "", asked)
    if isinstance(value, list):
        return [noting(item, f"{path}[]", asked) for item in value]
    return value


def keys_in(value: Any, path: str = "") -> set[str]:
    """Every key of a document, by its path."""
    if isinstance(value, list):
        return set().union(*(keys_in(item, f"{path}[]") for item in value))
    if not isinstance(value, dict):
        return set()
    head = f"{path}." if path else ""
    return {head + key for key in value}.union(*(keys_in(item, head + key) for key, item in value.items()))


def _load_decisions(folder: Path) -> None:
    arguments = ["decide", str(folder / "walk.toml"), "--states", str(folder / "states.jsonl")]
    assert run([*arguments, "-o", str(folder / "decisions.jsonl")]) == 0


WRITTEN = {
    "Runs": ("runs.jsonl", lambda folder: list(iter_runs(load_task(folder / "walk.toml"), folder / "runs.jsonl"))),
    "`faults/1`": ("faults.json", lambda folder: read_faults(load_task(folder / "walk.toml"), folder / "faults.json")),
    "`shield/1`": ("shield.json", lambda folder: load_shield(folder / "shield.json")),
    "`shield-tree/1`": ("tree.json", lambda folder: load_tree(folder / "tree.json")),
    "`decisions/1`": ("decisions.jsonl", _load_decisions),
    "`scheduler/1`": ("scheduler.json", lambda folder: None),  # only written
}
"""By heading: the file of the page, and who reads it."""
SOMETIMES = {
    "`faults/1`": {"faults[].kind"},
    "`shield/1`": {"environment", "horizon", "rule", "states[].least", "states[].risks"},
}
"""Keys that only some of these files have."""
COMMANDS = {
    "Runs": "fuzz walk.toml table.json --seed 1 -o",
    "`faults/1`": "faults walk.toml table.json -o",
    "`shield/1`": "permit walk.toml --bound 0.3 --distributions 2 --goal x==4 -o",
    "`shield-tree/1`": "permit walk.toml --bound 1/4 --tree",
    "`decisions/1`": "decide walk.toml --states states.jsonl -o",
    "`scheduler/1`": "check walk.prism --property Pmax=?[F(x=4)] --scheduler",
}


@pytest.mark.parametrize("heading", WRITTEN)
def test_the_keys_of_files_that_polvet_writes_are_those_that_are_written_and_read(heading, shown, monkeypatch, capsys):
    told = listed(section(PAGE, heading))
    monkeypatch.chdir(shown)
    assert run([*COMMANDS[heading].split(), "written.json"]) in (0, 10)
    text = (shown / "written.json").read_text()
    documents = (
        [json.loads(line) for line in text.splitlines()] if "jsonl" in WRITTEN[heading][0] else [json.loads(text)]
    )
    written = {key for document in documents for key in keys_in(document) if not BY_NAME.search(key)}
    assert written | SOMETIMES.get(heading, set()) == told
    asked: set[str] = set()
    parse = polvet.files.json.loads
    with monkeypatch.context() as patch:

        def loads(*args: Any, **options: Any) -> Any:
            document = parse(*args, **options)
            # A certificate that is checked on the way is no file of this page.
            return document if isinstance(document, dict) and "kind" in document else noting(document, "", asked)

        patch.setattr("json.loads", loads)
        WRITTEN[heading][1](shown)
    assert {key for key in asked if not BY_NAME.search(key)} <= told


@pytest.mark.parametrize(
    ("name", "old", "new", "hint"),
    [
        ("walk.toml", "[constants]", "[policy]\nimputs = ['x']\n[constants]", "inputs"),
        ("walk.toml", "goal =", "gaol =", "goal"),
        ("table.json", '"default"', '"defualt"', "default"),
        ("table.json", '"action": "left"', '"action": "left", "weight": 1', "scores"),
        ("rules.json", '"action": "left"', '"action": "left", "else": "right"', "when"),
        ("plan.json", '"guard_dnf"', '"guard"', "guard_dnf"),
    ],
)
def test_a_key_that_no_page_lists_is_refused_with_a_known_one(shown, name, old, new, hint):
    file = shown / name
    file.write_text(file.read_text().replace(old, new, 1))
    read = {"walk.toml": load_task, "plan.json": load_fmp}.get(name, load_policy)
    with pytest.raises(InputError, match=f"no key .* belongs here.*{hint}"):
        read(file)


def test_the_task_of_its_page_is_read(shown):
    found = re.search(r"```toml\n(model.*?)```", (DOCS / "task-file.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (shown / "walk.toml").write_text(found[1])
    task = load_task(shown / "walk.toml")
    assert task.reading.inputs == ("x",)
    assert task.reading.outputs == ("left", "right")
    assert load_fitted(task, shown / "table.json").filtered


def test_constants_are_read_as_their_page_says(tmp_path):
    (tmp_path / "m.prism").write_text(
        "mdp const int N; const double p; const double q; const bool icy;"
        "module m x : [0..N]; [a] icy -> p : (x' = 0) + 1 - p : true; endmodule"
    )
    found = re.search(
        r"\[constants\]\n\n```toml\n(.*?)```", (DOCS / "task-file.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    (tmp_path / "m.toml").write_text(f'model = "m.prism"\n{found[1]}')
    assert load_task(tmp_path / "m.toml").network.constants == {
        "N": 4,
        "p": Fraction(1, 4),
        "q": Fraction(1, 3),
        "icy": True,
    }
