"""`check_method` accepts polvet's own methods, and tells what is wrong with methods that are not honest."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.verify.explicit import EXPLICIT
from polvet.verify.ic3 import IC3
from polvet.verify.laws import check_method
from polvet.verify.method import Method
from polvet.verify.methods import METHODS
from polvet.verify.verdicts import Safe, Unknown

MODEL = """mdp
module m
  x : [0..6] init 1;
  [up] x < 5 -> 0.5:(x'=x+1) + 0.5:(x'=x);
  [down] x > 0 & x < 5 -> (x'=x-1);
  [leap] x < 5 -> (x'=x+2);
endmodule
"""
TASK = 'model = "m.prism"\nfail = "{fail}"\n'


def files_for(folder, fail):
    """A network that goes up: it never comes to 6, and it comes to 5, where no action is left."""
    (folder / "m.prism").write_text(MODEL)
    (folder / "m.toml").write_text(TASK.format(fail=fail))
    network = network_of([(np.zeros((3, 1)), np.array([2.0, 1.0, 0.0]))], ["x"], ["up", "down", "leap"])
    save_policy(network, folder / "p.nnet")
    return folder / "m.toml", folder / "p.nnet"


@pytest.mark.parametrize("fail", ["x == 6", "x == 5"])
@pytest.mark.parametrize("name", METHODS.places)
def test_methods_of_polvets_own_obey(tmp_path, fail, name):
    assert check_method(METHODS[name], *files_for(tmp_path, fail)) == ()


@pytest.fixture
def safe_files(tmp_path):
    return files_for(tmp_path, "x == 6")


def told(method, files):
    return "\n".join(map(str, check_method(method, *files)))


def test_a_method_that_forgets_what_it_does_not_know_is_found_out(safe_files):
    """In x = 5 the policy's runs end outside the goal, which counts as a failure where deadlocks are to be avoided."""
    broken = told(replace(IC3, needs=()), safe_files)
    assert "with --avoid stuck,deadlock, but the policy is unsafe" in broken


def test_a_claim_without_proof_is_found_out(safe_files):
    bold = Method(
        "bold", "believes in policies", lambda bound, request: Safe({"kind": "reachable-set", "count": 3}, "bold")
    )
    assert "the checker rejects its evidence" in told(bold, safe_files)


def test_an_answer_that_changes_is_found_out(safe_files):
    calls = count()

    def moody(bound, request):
        found = EXPLICIT.run(bound, request)
        if not isinstance(found, Safe):
            return Unknown("not now", "moody")
        return replace(found, method="moody", certificate={**found.certificate, "times": next(calls)})

    assert "another answer the second time" in told(Method("moody", "", moody), safe_files)


@pytest.mark.parametrize(
    ("answer", "law"),
    [
        (Unknown("no idea", "someone"), "answers under the name 'someone'"),
        (Unknown("", "new"), "unknown without a reason"),
    ],
)
def test_bad_manners_are_found_out(safe_files, answer, law):
    assert law in told(Method("new", "", lambda bound, request: answer), safe_files)
