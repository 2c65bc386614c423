"""Methods and algorithms are data: documents, help pages and errors name exactly what the registries hold."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from polvet.choices import Registry
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.policy.formats import FORMATS
from polvet.repair.methods import METHODS as REPAIRS
from polvet.repair.methods import SOLVERS
from polvet.safety.algorithms import ALGORITHMS, ORDERS
from polvet.termination.methods import METHODS as TESTS
from polvet.verify.methods import METHODS as VERIFICATIONS
from polvet.worlds.formats import FORMATS as WORLDS
from tests.pages import DOCS

ROOT = DOCS.parent
KINDS = {"TreeEnsemble": "trees", "Network": "networks", "UnitGraph": "networks", "Table": "tables", "Rules": "rules"}
TABLES = {
    "verification.md": [(m.name, m.help, m.conditions) for m in VERIFICATIONS.values()],
    "repair.md": [
        (m.name, ", ".join(dict.fromkeys(KINDS[kind.__name__] for kind in m.policies)), m.help)
        for m in REPAIRS.values()
    ],
    "termination.md": [(m.name, m.help, m.complete) for m in TESTS.values()],
    "policies.md": [(f.name, *f.cells) for f in FORMATS.values()],
    "task-file.md": [(f.name, *f.cells) for f in WORLDS.values()],
    "safety.md": [(a.name, a.help, a.cost, f"`{Path(a.file).name}`") for a in ALGORITHMS.values()],
}


@pytest.mark.parametrize("page", TABLES)
def test_the_table_of_the_page_is_the_registry(page):
    rows = re.findall(r"^\| `[\w-]+`(?: \(default\))? \|.*\|$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    names = [name for name, *_ in TABLES[page]]
    told = [row.replace(" (default)", "") for row in rows if re.match(r"\| `([\w-]+)`", row)[1] in names]
    assert told == [f"| `{name}` | {' | '.join(cells)} |" for name, *cells in TABLES[page]]


@pytest.mark.parametrize(
    "registry",
    [VERIFICATIONS, REPAIRS, TESTS, FORMATS, WORLDS],
    ids=lambda one: one.places["explicit"][:13] if "explicit" in one.places else str(one.words[1]),
)
def test_every_value_has_the_name_it_is_found_by(registry):
    assert [value.name for value in registry.values()] == list(registry)
    assert all(value.help and "\n" not in value.help for value in registry.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda one: one.name)
def test_every_algorithm_is_in_the_file_that_is_named(algorithm):
    text = (ROOT / algorithm.file).read_text(encoding="utf-8")
    assert re.search(rf"^(template <class Game> )?(class|def) {algorithm.code}\b", text, re.MULTILINE)
    makers = (ROOT / "src/_core/decide/decide.cpp").read_text(encoding="utf-8")
    made = re.search(rf'name == "{algorithm.name}"\) return std::make_unique<(\w+)<Game>>', makers)
    assert (made[1] if made else None) == (algorithm.code if algorithm.search else None)


@pytest.mark.parametrize("command", ["explore", "info"])
def test_help_names_every_format_of_worlds(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run([command, "--help"]) == 0
    assert {name.upper() for name in WORLDS} <= set(re.findall(r"\w+", capsys.readouterr().out.upper()))


HELP = {
    "verify": VERIFICATIONS.words,
    "repair": (*REPAIRS.words, *SOLVERS),
    "debug": REPAIRS.words,
    "terminates": TESTS.words,
    "decide": (*ALGORITHMS, *ORDERS),
}


@pytest.mark.parametrize("command", HELP)
def test_help_lists_every_word_and_imports_no_engine(command):
    probe = (
        "import sys; from polvet.cli.app import run; code = run(sys.argv[1:]); "
        "heavy = {'numpy', 'z3', 'highspy', 'polvet._core'} & set(sys.modules); sys.exit(f'imports {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, command, "--help"], capture_output=True, text=True, check=False,
        env={"COLUMNS": "200", "PATH": "", "TERMINAL_WIDTH": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = set(re.findall(r"[\w-]+", done.stdout))
    assert set(HELP[command]) <= words


@pytest.fixture
def files(tmp_path, capsys):
    assert run(["domains", "--policies", str(tmp_path)]) == 0
    capsys.readouterr()
    return str(tmp_path / "one-way-line-8-5.toml"), str(tmp_path / "one-way-line-8-5-faulty.json")


@pytest.mark.parametrize(
    ("command", "option", "word"),
    [
        ("debug", "--repair-mode", "foo"),
        ("debug", "--method", "tre"),
        ("debug", "--verify", "foo"),
        ("repair", "--repair-mode", "foo"),
        ("repair", "--mode", "foo"),
        ("repair", "--solver", "foo"),
        ("verify", "--method", "foo"),
        ("decide", "--algorithm", "foo"),
        ("decide", "--order", "foo"),
    ],
)
def test_an_unknown_word_is_refused_with_the_option_it_was_given_to(files, tmp_path, capsys, command, option, word):
    arguments = [files[0]] if command == "decide" else list(files)
    if command == "debug":
        arguments += ["-o", str(tmp_path / "campaign")]
    if command == "repair":
        faults = str(tmp_path / "faults.json")
        assert run(["faults", *files, "-o", faults]) == 10
        arguments += ["--faults", faults]
    assert run([command, *arguments, option, word]) == 30
    told = capsys.readouterr().err
    assert f"{option}: '{word}' is unknown." in told
    assert "Use " in told


def test_debug_takes_every_repair_method(files, tmp_path, capsys):
    """`units` is for networks: with trees it is refused for that reason, not as an unknown word."""
    arguments = ["--method", "units", "--iterations", "1", "--starts", "20", "-o", str(tmp_path / "campaign")]
    assert run(["debug", *files, *arguments]) == 30
    assert "'units' does not fit a TreeEnsemble" in capsys.readouterr().err


def test_a_package_brings_a_method_by_an_entry_point(monkeypatch):
    method = VERIFICATIONS["explicit"]
    monkeypatch.setattr(sys.modules[__name__], "BROUGHT", method, raising=False)
    registry = Registry("--method", {}, "polvet.verify.method:Method", "some.group")
    for name, value, message in [
        ("explicit", f"{__name__}:BROUGHT", None),
        ("other", f"{__name__}:BROUGHT", "no polvet.verify.method:Method of that name"),
        ("explicit", f"{__name__}:ROOT", "no polvet.verify.method:Method of that name"),
        ("explicit", f"{__name__}:NOWHERE", "cannot be loaded"),
        ("explicit", "no_such_module:X", "cannot be loaded"),
    ]:
        monkeypatch.setattr(
            "importlib.metadata.entry_points", lambda n=name, v=value, **_: [EntryPoint(n, v, "some.group")]
        )
        if message is None:
            assert registry.chosen("explicit") == "explicit"
            assert registry["explicit"] is method
        else:
            with pytest.raises(InputError, match=message):
                registry.chosen(name)


def test_a_package_takes_no_name_of_polvets_own(monkeypatch):
    entry = EntryPoint("bmc", "polvet.verify.bmc:BMC", VERIFICATIONS.group)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [entry])
    with pytest.raises(InputError, match="the name is taken"):
        VERIFICATIONS.chosen("nothing")
    assert VERIFICATIONS.chosen("bmc") == "bmc"
