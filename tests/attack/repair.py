"""False repairs: faults that the policy still has, by a tie, a rounded score, the way it is read, or a label that is not applicable.

Weights and inputs are integers that float32 holds, so that what a policy takes is plain arithmetic.
"""

from __future__ import annotations

import json
import math
from contextlib import nullcontext

import numpy as np

from polvet.check.checker import Subjects
from polvet.errors import InputError
from polvet.policy.identity import policy_sha256
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.sources import TaskOptions, load_task
from tests.attack.worlds import op

LABELS = ("a", "b", "c")
BASES = (0, 0, -5, 2**22)
BIASES = (0, 0, 1, -1, 3, 2**20, 2**24, 2**24 + 1, 0.1)


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    base = rng.choice(BASES)
    open_at = {label: sorted(rng.sample(range(4), rng.randint(1, 4))) for label in LABELS}
    file, policy = folder / "small.toml", folder / "policy.onnx"
    (folder / "small.jani").write_text(json.dumps(_model(base, open_at)), encoding="utf-8")
    reading = rng.choice(["filtered", "raw"])
    text = f'model = "small.jani"\nfail = "x == {base + 3}"\n[policy]\nmode = "{reading}"\n'
    file.write_text(text, encoding="utf-8")
    weights = [rng.choice([0, 0, 1, -1, 2]) for _ in LABELS]
    biases = [rng.choice(BIASES) - w * base for w in weights]
    layer = np.array(weights, dtype=np.float64).reshape(-1, 1), np.array(biases, dtype=np.float64)
    save_onnx(network_of([layer], ["x"], list(LABELS)), policy)
    try:
        task = load_task(file, TaskOptions())
    except InputError:
        return
    about = {"kind": "repair", "task_sha256": task.sha256, "policy_sha256": policy_sha256(policy), "reading": reading}
    for _ in range(6):
        mode = rng.choice(["safe", "avoid"])
        faults = [_fault(rng, base, open_at, weights, biases, reading, mode) for _ in range(rng.choice([1, 1, 2]))]
        if not any(fault["false"] for fault in faults):
            continue
        listed = [{key: value for key, value in fault.items() if key != "false"} for fault in faults]
        left = rng.choice([{}, {"left": 0}])
        yield {**about, "mode": mode, "faults": listed, **left}, Subjects(file, policy), nullcontext()
    fault = _fault(rng, base, open_at, weights, biases, reading, "avoid")
    other = {**about, "mode": "avoid", "reading": "raw" if reading == "filtered" else "filtered"}
    yield {**other, "faults": [{k: v for k, v in fault.items() if k != "false"}]}, Subjects(file, policy), nullcontext()


def _fault(rng, base, open_at, weights, biases, reading, mode):
    """A fault of the list, and whether something that it says is false."""
    place = rng.randrange(4)
    x = base + place
    scores = [np.float32(np.float32(w * x) + np.float32(b)) for w, b in zip(weights, biases, strict=True)]
    applicable = [label for label in LABELS if place in open_at[label]]
    asked = [k for k, label in enumerate(LABELS) if reading == "raw" or label in applicable]
    taken = LABELS[max(asked, key=lambda k: (scores[k], -k))] if asked and applicable else None
    action = rng.choice([taken or "a", rng.choice(LABELS)])
    safe = [label for label in LABELS if label != action and rng.random() < 0.6]
    after = {label: float(score) for label, score in zip(LABELS, scores, strict=True)}
    false = taken not in applicable or taken == action or (mode == "safe" and taken not in safe)
    false = false or action not in applicable
    before = dict(after)
    if rng.random() < 0.3:
        label = rng.choice(LABELS)
        after[label] = rng.choice([math.nextafter(after[label], math.inf), after[label] + 1e-9, 0.1, 2**53 + 1])
        false = false or after[label] != float(scores[LABELS.index(label)])
    state = {"x": x}
    if rng.random() < 0.1:
        state, false = rng.choice([{"x": base + 4}, {}, {"x": str(x), "y": 1}, {"x": x + 0.5}]), True
    return {"state": state, "action": action, "safe_actions": safe, "before": before, "after": after, "false": false}


def _model(base, open_at):
    edges = []
    for label, places in open_at.items():
        guard = False
        for place in places:
            one = op("=", "x", base + place)
            guard = one if guard is False else op("∨", guard, one)
        move = {"location": "l", "assignments": [{"ref": "x", "value": "x"}]}
        edges.append({"location": "l", "action": label, "guard": {"exp": guard}, "destinations": [move]})
    kind = {"kind": "bounded", "base": "int", "lower-bound": base, "upper-bound": base + 3}
    return {
        "jani-version": 1, "name": "attack", "type": "mdp", "actions": [{"name": label} for label in LABELS],
        "variables": [{"name": "x", "type": kind, "initial-value": base}],
        "automata": [{"name": "one", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": edges}],
        "system": {"elements": [{"automaton": "one"}], "syncs": [{"synchronise": [x], "result": x} for x in LABELS]},
    }  # fmt: skip
