"""Small input has a small cost: hostile numbers and sizes get one clear answer, under a memory limit.

Each command runs in a process of its own that may take 4 GB of addresses; the time-out only keeps a hang from lasting.
"""

from __future__ import annotations

import base64
import json
import resource
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from polvet.files import sha256
from polvet.policy.identity import policy_sha256
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.sources import TaskOptions, load_task

MODEL = """mdp
const int N;
module m
  x : [0..9] init 3;
  [left] x > 0 & x < 9 -> (x'=x-1);
  [right] x > 0 & x < 9 -> (x'=x+1);
endmodule
"""
REAL = {
    "jani-version": 1, "name": "r", "type": "mdp", "actions": [{"name": "right"}],
    "variables": [{"name": "y", "type": "real", "initial-value": 0.5}],
    "automata": [{
        "name": "a", "locations": [{"name": "l"}], "initial-locations": ["l"],
        "edges": [{
            "location": "l", "action": "right", "destinations": [
                {"location": "l", "assignments": [{"ref": "y", "value": {"op": "/", "left": "y", "right": 2}}]}
            ],
        }],
    }],
    "system": {"elements": [{"automaton": "a"}]},
}  # fmt: skip
POLICY = {"format": "rules/1", "rules": [{"when": "true", "action": "right"}]}
BILLION = "1e999999999"
LONG = "9" * 351


def polvet(folder: Path, *arguments: str, file_size: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in the folder, with a limit on addresses and perhaps on the size of files."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    return subprocess.run(
        [sys.executable, "-m", "polvet", *arguments], cwd=folder, preexec_fn=limit, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def refused(found: subprocess.CompletedProcess[str], words: str, code: int = 30) -> None:
    said = found.stdout + found.stderr
    assert found.returncode == code, said[-2000:]
    assert words in said
    assert "Traceback" not in said
    assert len(said) < 2_000


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.prism").write_text(MODEL)
    (tmp_path / "r.jani").write_text(json.dumps(REAL))
    (tmp_path / "p.json").write_text(json.dumps(POLICY))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explore", "m.prism", "--constants", f"N={BILLION}"), "too large"),
        (("explore", "m.prism", "--constants", f"N={LONG}"), "too large"),
        (("explore", "m.prism", "--constants", "N=1e-999999999"), "too large"),
        (("decide", "m.prism", "--constants", "N=1", "--fail", "x=0", "--state", f"x={BILLION}"), "no value of 'x'"),
        (("decide", "r.jani", "--fail", "y > 1", "--state", f"y={LONG}"), "no value of 'y'"),
        (("decide", "m.prism", "--constants", "N=1", "--fail", "x=0", "--bound", BILLION), "no number"),
        (("decide", "m.prism", "--constants", "N=1", "--fail", "x=0", "--bound", "1e-99999999"), "no number"),
        (("permit", "m.prism", "--constants", "N=1", "--fail", "x=0", "--bound", "1e-99999999"), "no number"),
        (("decide", "r.jani", "--fail", f"y > {LONG}"), "beyond the range of doubles"),
        (("verify", "r.jani", "p.json", "--fail", f"y * {LONG} > 1"), "beyond the range of doubles"),
        (("decide", "m.prism", "--constants", "N=1", "--fail", f"x > {BILLION}"), "too large"),
        (("simulate", "m.prism", "p.json", "--constants", "N=1", "--seed", str(2**70)), "--seed"),
        (("fuzz", "m.prism", "p.json", "--constants", "N=1", "--fail", "x=0", "--seed", str(2**64)), "--seed"),
        (("explore", "m.prism", "--constants", "N=1", "--max-states", str(2**70)), "too large for 'max-states'"),
        (("explore", "m.prism", "--constants", "N=1", "--memory-limit", str(2**70)), "too large for 'memory-limit'"),
        (
            ("simulate", "m.prism", "p.json", "--constants", "N=1", "--max-steps", str(2**70)),
            "too large for 'max-steps'",
        ),
    ],
)
def test_a_hostile_option_is_refused(folder, arguments, words):
    refused(polvet(folder, *arguments), words)


@pytest.mark.parametrize(
    "constants",
    [
        "const double P = pow(pow(2.5, 1000), 1000);",
        "const int P = pow(pow(pow(pow(9, 63), 63), 63), 63);",
        "const double P = pow(0.5, -pow(2, 30));",
        "const double c0 = 1.1234567890123;\n"
        + "".join(f"const double c{k + 1} = c{k} * c{k};\n" for k in range(40))
        + "const double P = c40;",
    ],
    ids=["real power", "integer power", "negative power", "squares of squares"],
)
def test_constants_that_grow_without_end_are_refused(folder, constants):
    model = MODEL.replace("const int N;", constants).replace("[right] x > 0", "[right] P > 1 & x > 0")
    (folder / "grow.prism").write_text(model)
    found = polvet(folder, "explore", "grow.prism")
    assert found.returncode == 30, found.stdout + found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("value", "words"), [(1e300, "no value"), ("1e999999999", "no value"), (int(LONG), "no value")], ids=str
)
def test_a_hostile_value_in_a_file_of_states_is_refused(folder, value, words):
    (folder / "states.jsonl").write_text(json.dumps({"x": value}) + "\n")
    refused(polvet(folder, "decide", "m.prism", "--constants", "N=1", "--fail", "x=0", "--states", "states.jsonl"), "x")
    (folder / "reals.jsonl").write_text('{"y": 1e999}\n')
    refused(polvet(folder, "decide", "r.jani", "--fail", "y > 1", "--states", "reals.jsonl"), words)


def certified(folder: Path, model: str, certificate: dict, *, with_policy: bool = True):
    (folder / "c.json").write_text(json.dumps(certificate))
    policy = ["--policy", "p.json"] if with_policy else []
    options = ["--allow-options"] if "options" in certificate else []
    return polvet(folder, "certify", "c.json", "--task", model, *policy, *options)


def head(folder: Path, model: str, **options: str) -> dict:
    constants = {"N": 1} if "N=1" in options.get("constants", "") else {}
    task = load_task(folder / model, TaskOptions(constants, fail=options.get("fail")))
    return {
        "format": "certificate/1", "task_sha256": task.sha256, "options": options,
        "policy_sha256": policy_sha256(folder / "p.json"),
    }  # fmt: skip


def test_a_hostile_value_in_a_certificate_is_rejected(folder):
    given = head(folder, "m.prism", constants="N=1", fail="x = 0")
    run = {"kind": "run", "states": [{"x": BILLION}], "actions": [], "end": "fail"}
    refused(certified(folder, "m.prism", given | run), "no value of 'x'", 10)
    given["options"] = {"constants": f"N={BILLION}", "fail": "x = 0"}
    refused(certified(folder, "m.prism", given | run), "too large", 10)
    shield = {
        "format": "shield/1", "kind": "permissive", "model_sha256": given["task_sha256"], "bound": "1e-999999999",
        "options": {"constants": "N=1", "fail": "x = 0"}, "states": [],
    }  # fmt: skip
    refused(certified(folder, "m.prism", shield, with_policy=False), "no fraction", 10)


def test_packed_states_are_measured_before_they_are_unpacked(folder):
    """A megabyte of zeros that unpacks to 2^30 bytes; the address limit would not hold the states made of it."""
    wide = MODEL.replace("[0..9]", "[0..2000000000]").replace("const int N;", "")
    (folder / "wide.prism").write_text(wide)
    for model, most in (("wide.prism", "is larger than"), ("m.prism", "the task has 10 states at most")):
        options = {"fail": "x = 0"} | ({"constants": "N=1"} if model == "m.prism" else {})
        packer = zlib.compressobj(9)
        data = b"".join(packer.compress(bytes(2**24)) for _ in range(64)) + packer.flush()
        assert len(data) < 2**21
        states = {"variables": ["x"], "types": ["u1"], "data": base64.b64encode(data).decode()}
        claim = {"kind": "reachable-set", "count": 2**30, "states": states}
        refused(certified(folder, model, head(folder, model, **options) | claim), most, 10)


def test_a_model_without_variables_has_one_state(folder):
    (folder / "none.prism").write_text("mdp\nmodule m\n  [right] true -> true;\nendmodule\n")
    states = {"variables": [], "types": [], "data": base64.b64encode(zlib.compress(b"")).decode()}
    given = head(folder, "none.prism", fail="false")
    claim = {"kind": "reachable-set", "count": 5_000, "states": states}
    refused(certified(folder, "none.prism", given | claim), "the task has 1 states at most", 10)
    found = certified(folder, "none.prism", given | claim | {"count": 1})
    assert found.returncode == 0, found.stderr


def test_windows_of_tracked_values_are_measured_before_they_are_listed(folder):
    plan = {
        "format": "fmp/1", "semantics": "deterministic", "variables": [{"name": "x", "lower": 0, "upper": None}],
        "control_states": ["q"], "initial": "q",
        "edges": [{"id": 0, "from": "q", "to": "q", "choices": [{"action": "a", "effects": {"x": -1}}]}],
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    claim = {
        "kind": "lex-rank", "task_sha256": sha256(folder / "plan.json"), "tracked": {"x": [0, 10**12]}, "components": [],
    }  # fmt: skip
    refused(certified(folder, "plan.json", claim, with_policy=False), "more than 200000 nodes", 10)


def test_an_invariant_over_a_wide_range_is_measured_first(folder):
    """Every state of [0..2^31] would take 16 GB; the range is tested before."""
    model = "mdp\nmodule m\n  x : [0..2147483647] init 3;\n  [right] x < 9 -> (x'=x+1);\nendmodule\n"
    (folder / "wide.prism").write_text(model)
    save_policy(network_of([(np.zeros((1, 1)), np.zeros(1))], ["x"], ["right"]), folder / "p.nnet")
    made = polvet(folder, "verify", "wide.prism", "p.nnet", "--fail", "x > 20", "--method", "ic3", "-o", "c.json")
    assert made.returncode == 0, made.stdout + made.stderr
    assert json.loads((folder / "c.json").read_text())["kind"] == "invariant"
    found = polvet(folder, "certify", "c.json", "--task", "wide.prism", "--policy", "p.nnet", "--allow-options")
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_full_disk_ends_a_search_with_a_message_and_loses_nothing(folder):
    """A limit on the size of files stands for the disk: the kernel refuses to write beyond it."""
    command = ["fuzz", "m.prism", "p.json", "--constants", "N=1", "--fail", "x = 9", "--runs", "6000", "--whole"]
    whole = polvet(folder, *command, "-o", "whole.jsonl")
    assert whole.returncode == 10, whole.stderr
    size = (folder / "whole.jsonl.journal").stat().st_size
    cut = polvet(folder, *command, "-o", "cut.jsonl", file_size=size // 2)
    refused(cut, "Make room on the disk")
    kept = (folder / "cut.jsonl.journal").read_bytes()
    assert 0 < len(kept) <= size // 2
    assert kept.endswith(b"\n")
    again = polvet(folder, *command, "-o", "cut.jsonl")
    assert again.returncode == 10, again.stderr
    assert (folder / "cut.jsonl.journal").read_bytes().startswith(kept)
    assert (folder / "cut.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()


def test_an_answer_that_cannot_be_printed_is_no_bug(folder):
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "polvet", "info", "m.prism", "--constants", "N=1"], cwd=folder, stdout=full,
            stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert found.returncode == 30
    assert "No space left on device" in found.stderr
    assert "Traceback" not in found.stderr
