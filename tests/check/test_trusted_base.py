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
from tests.check.closure import closure, imports_of
from tests.check.kinds import make_all

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


@pytest.mark.parametrize("kind", sorted(CHECKERS))
def test_no_checker_can_ever_import_the_kernel_or_an_engine(kind):
    found = closure(CHECKERS[kind].split(":")[0])
    assert {name.split(".")[1] for name in found if "." in name} <= ALLOWED - {"cli"}
    scorers = {name.split(".")[1] for name, file in found.items() if "polvet._core" in imports_of(file)}
    assert scorers <= {"policy"}
