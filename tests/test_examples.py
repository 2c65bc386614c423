"""Every example runs with a tiny budget and says what its story promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from polvet import domains
from polvet.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SHIPPED = Path(domains.__file__).parent / "policies"
pytestmark = pytest.mark.slow


def tell(name: str, *arguments: str) -> str:
    """Run an example and return what it prints; a failure shows its last words."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_an_xgboost_policy_is_debugged_until_it_is_proved_safe(tmp_path):
    pytest.importorskip("xgboost")
    told = tell("debug_xgboost.py", "--starts", "400", "-o", str(tmp_path))
    assert float(re.findall(r"%Unsafe ([\d.]+)", told)[0]) > 0, "there is something to repair"
    assert "outcome: safe" in told
    assert "Accepted" in told
    assert (tmp_path / "report.html").stat().st_size < 3_000_000


def test_a_robot_among_people_becomes_safe_and_stays_useful(tmp_path):
    pytest.importorskip("xgboost")
    told = tell("warehouse.py", "-o", str(tmp_path / "warehouse"))
    course = [tuple(map(float, row.split()[1:4])) for row in told.splitlines() if re.match(r" +\d+ ", row)]
    assert course[0][0] > 80
    assert course[-1][0] == 0
    fewest = float(re.search(r"%Goal 100.00, in (\d+\.\d) steps or more", told)[1])
    assert course[0][2] < fewest <= course[-1][2] <= 1.05 * fewest
    assert all(
        goal >= before - 1 and steps <= 1.25 * shorter for (_, before, shorter), (_, goal, steps) in pairwise(course)
    )
    assert "outcome: safe" in told
    assert "Accepted" in told


def test_a_world_of_ones_own_tells_the_careful_policy_from_the_careless(tmp_path):
    pytest.importorskip("gymnasium")
    told = tell("own_world.py", "-o", str(tmp_path))
    assert "careless: unsafe" in told
    assert "careful: safe" in told


def test_a_shielded_learner_never_fails():
    pytest.importorskip("gymnasium")
    told = tell("shielded_q_learning.py", "--episodes", "300")
    without, shielded = re.findall(r"(\d+) of 300 episodes failed", told)
    assert int(without) > 0
    assert int(shielded) == 0


def test_a_shielded_ppo_never_fails():
    pytest.importorskip("sb3_contrib")
    told = tell("shielded_ppo.py", "--steps", "600")
    assert told.strip().endswith("with the shield 0")


def test_a_plan_that_need_not_end_is_told_from_one_that_does(tmp_path):
    told = tell("terminating_plan.py", "-o", str(tmp_path))
    assert "carelessly: nonterminating" in told
    assert "carefully: terminating" in told
    assert told.count("Accepted") == 2


@pytest.mark.parametrize(("policy", "passed"), [("good", 2), ("faulty", 0)])
def test_the_gate_in_a_test_suite(policy, passed):
    files = [
        "--polvet",
        str(SHIPPED / "one-way-line-8-5.toml"),
        "--polvet-policy",
        str(SHIPPED / f"one-way-line-8-5-{policy}.json"),
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_policy.py"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == (0 if passed else 1)
    assert ("3 passed" in done.stdout) == bool(passed)  # the two of the file, and the plugin's own


def test_the_workflow_calls_commands_that_exist():
    text = (EXAMPLES / "ci-gate.yml").read_text()
    assert set(re.findall(r"polvet (\w+) [\"d]", text)) <= set(COMMANDS)
    assert {"gate", "debug", "report"} <= set(re.findall(r"polvet (\w+)", text))
