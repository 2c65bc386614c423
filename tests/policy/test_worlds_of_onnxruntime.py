"""Random networks of every unit in small worlds: the verdict is what following onnxruntime's choices shows, and its proof holds.

50 worlds; POLVET_ROUNDS=10 makes them 500.
"""

import base64
import copy
import itertools
import os
import zlib

import numpy as np
import pytest

import polvet
from polvet.policy import near_ties, save_policy
from tests.policy.graphs import random_graph

onnxruntime = pytest.importorskip("onnxruntime")

ROUNDS = int(os.environ.get("POLVET_ROUNDS", "1"))
SIZE = 5
STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, 1)}
PLACES = list(itertools.product(range(SIZE), repeat=2))


def moved(place, label):
    return tuple(min(max(a + d, 0), SIZE - 1) for a, d in zip(place, STEPS[label], strict=True))


def world(pits, start):
    m = polvet.ModelBuilder("world")
    variables = m.int("x", 0, SIZE - 1, initial=start[0]), m.int("y", 0, SIZE - 1, initial=start[1])
    for label, step in STEPS.items():
        at, d = next((at, d) for at, d in zip(variables, step, strict=True) if d)
        end = 0 if d < 0 else SIZE - 1
        m.edge(label, guard=at != end, to={at: at + d})
        m.edge(label, guard=at == end, to={at: at})
    fail = " || ".join(f"(x == {a} && y == {b})" for a, b in pits)
    return polvet.load(m, fail=fail, goal="false")


def followed(chosen, start, pits):
    """The places that the choices lead through, and whether they lead into a pit."""
    place, seen = start, []
    while place not in seen and place not in pits:
        seen.append(place)
        place = moved(place, chosen[place])
    return seen, place in pits


def lies(certificate, start):
    """The certificate with one claim changed: another policy's, a run that ends elsewhere, a state less, the start blocked."""
    other = copy.deepcopy(certificate)
    match other["kind"]:
        case "run":
            other["states"][-1]["x"] = (other["states"][-1]["x"] + 1) % SIZE
        case "reachable-set":
            states = np.frombuffer(zlib.decompress(base64.b64decode(other["states"]["data"])), dtype=np.uint8)
            fewer = states.reshape(2, -1)[:, :-1].tobytes()
            other["states"]["data"] = base64.b64encode(zlib.compress(fewer)).decode()
            other["count"] -= 1
        case "invariant":
            other["blocked"].append({"x": [start[0]] * 2, "y": [start[1]] * 2})
    return [{**certificate, "policy_sha256": "0" * 64}, other]


@pytest.mark.parametrize("batch", range(5 * ROUNDS))
def test_verdicts_are_what_onnxruntime_does(batch, tmp_path):
    rng = np.random.default_rng(batch)
    decided = set()
    for number in range(10):
        graph = random_graph(rng, ["x", "y"], list(STEPS))
        save_policy(graph, tmp_path / "p.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "p.onnx", providers=["CPUExecutionProvider"])
        rows = np.array(PLACES, dtype=np.float32)
        scores = session.run(None, {session.get_inputs()[0].name: rows})[0]
        chosen = {place: list(STEPS)[k] for place, k in zip(PLACES, scores.argmax(axis=1), strict=True)}
        ties = {place for place, tie in zip(PLACES, near_ties(graph, rows), strict=True) if tie}
        order = rng.permutation(len(PLACES))
        start, *pits = (PLACES[k] for k in order[: 1 + int(rng.integers(1, 9))])
        task = world(pits, start)
        policy = task.policy(tmp_path / "p.onnx")
        seen, fails = followed(chosen, start, pits)
        result = policy.verify("ic3" if number % 3 == 2 else "auto")
        if ties & set(seen):
            continue
        assert result.verdict.value == ("unsafe" if fails else "safe")
        decided.add(result.verdict)
        assert polvet.certify(result.certificate, task, policy).accepted
        for lie in lies(result.certificate, start):
            assert not polvet.certify(lie, task, policy).accepted
    assert decided
