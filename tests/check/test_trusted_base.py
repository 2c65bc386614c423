"""What must be trusted is what the checker loads: for every kind of certificate, run in a process of its own, no engine is there.

Policies are scored by the kernel's evaluators (`polvet._core`, through `polvet.policy`): the one exception, and the slow twins of
`tests/policy` speak for them. A certificate about plans, states or shields needs not even these.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from polvet.check.checker import CHECKERS
from tests.check.closure import SOURCE, bases, closure, imports_of, is_reader, loaded
from tests.check.kinds import make_all

RESULTS = SOURCE.parent / "benchmarks" / "results"
ALLOWED = {
    "verdict",
    "errors",
    "choices",  # names of formats, and where their values are
    "system",
    "interrupts",
    "numbers",
    "files",
    "model",
    "jani",
    "prism",
    "pddl",
    "features",  # what terms and functions of a state are worth
    "worlds",
    "sources",
    "policy",
}
ALLOWED |= {"check", "records", "cli", "budget"}
DOOR = {"polvet.front", "polvet.front.certifying", "polvet.front.result", "polvet.front.results"}
DOOR |= {"polvet.confirm", "polvet.confirm.outcome"}
"""The front door's own words for what the checker says, which load nothing else."""
SCORERS = {
    "reachable-set",
    "repair",
    "invariant",
    "safe-region",
    "won-projection",
    "grid",
}  # these ask a policy, so that `_core` may be loaded
SOLVERS = {"z3", "highspy", "scipy", "networkx", "torch", "xgboost", "lightgbm", "sklearn", "dd", "pyscipopt", "ray"}


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """Return the words after `polvet certify` by kind."""
    return make_all(tmp_path_factory.mktemp("certified"))


PROBE = """
import json, sys
from polvet.cli.app import run
code = run(["certify", *json.loads(sys.argv[1])])
print(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize("kind", sorted(CHECKERS))
def test_checking_loads_no_kernel_no_engine_and_no_solver(kind, certified):
    assert kind in certified, f"no engine here made a certificate of the kind {kind}"
    command = [sys.executable, "-c", PROBE, json.dumps(certified[kind])]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    code, modules = json.loads(shown[-1])
    assert code == 0, shown
    rooms = {name.split(".")[1] for name in modules if name.startswith("polvet.") and name not in DOOR}
    assert rooms - ALLOWED - ({"_core"} if kind in SCORERS or "--policy" in certified[kind] else set()) == set()
    assert not {name.partition(".")[0] for name in modules} & SOLVERS


def test_what_decides_holds_no_reader_and_has_not_grown(recorded):
    """More than a tenth over what was recorded: a mistake, or for `benchmarks.trusted_base` to record and docs/trust.md to explain."""
    for kind, base in bases().items():
        decisive = closure(CHECKERS[kind].split(":")[0], readers=False)
        assert not {name for name in decisive if is_reader(name)}
        rooms = {name.split(".")[1] for name in decisive if "." in name}
        assert not rooms & {"jani", "prism", "pddl", "worlds", "sources"}
        if kind in recorded["now"]:
            assert base.decides.lines <= 1.1 * recorded["now"][kind]["decides"]["lines"], kind


def test_only_the_readers_of_the_formats_at_hand_are_loaded(certified):
    """A PRISM model with a table as its policy needs no reader of JANI, PDDL, environments, networks or trees."""
    files = {file.relative_to(SOURCE / "polvet").as_posix() for file in loaded(certified["run"])}
    assert {"prism/parse.py", "policy/tables.py"} <= files
    others = (
        "jani",
        "pddl",
        "worlds/gym",
        "policy/onnx",
        "policy/xgboost",
        "policy/lightgbm",
        "policy/nnet",
        "policy/sk",
    )
    assert not [file for file in files if file.startswith(others)]
    plans = {file.relative_to(SOURCE / "polvet").as_posix() for file in loaded(certified["lasso"])}
    assert not [file for file in plans if file.startswith(("model/semantics", "sources", "prism", "policy/binding"))]
    assert (
        loaded([certified["lasso"][0], "--task", certified["lex-rank"][2]]) is None
    )  # another plan's: nothing is accepted


def test_the_page_shows_what_was_measured():
    page = (SOURCE.parent / "docs" / "trust.md").read_text(encoding="utf-8")
    for part in (RESULTS / "trusted-base.md").read_text(encoding="utf-8").split("\n\n"):
        assert part.strip() in page


@pytest.fixture
def recorded():
    """What `benchmarks.trusted_base` measured."""
    return json.loads((RESULTS / "trusted-base.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", sorted(CHECKERS))
def test_no_checker_can_ever_import_the_kernel_or_an_engine(kind):
    found = closure(CHECKERS[kind].split(":")[0])
    assert {name.split(".")[1] for name in found if "." in name} <= ALLOWED - {"cli"}
    scorers = {name.split(".")[1] for name, file in found.items() if "polvet._core" in imports_of(file)}
    assert scorers <= {"policy"}
