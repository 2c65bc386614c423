"""MoGym's cdrive.2 policies: the probability of the goal under the filtered policy, exactly, against the recorded values.

The model is read here by a few lines of Python that know no more than its two operators, so that nothing but the policy's
scores and choices is tested.
"""

import json
from fractions import Fraction

import numpy as np
import pytest

from polvet.policy import load_policy, near_ties
from tests.conftest import BENCHMARKS

MODEL = BENCHMARKS / "qvbs" / "mdp" / "cdrive" / "cdrive.2.jani"
POLICIES = BENCHMARKS / "mogym-policies" / "cdrive.2"


def holds(expression, state):
    if expression["op"] == "∧":
        return holds(expression["left"], state) and holds(expression["right"], state)
    assert expression["op"] == "="
    return state[expression["left"]] == expression["right"]


def successors(edge, state):
    for destination in edge["destinations"]:
        probability = Fraction(str(destination.get("probability", {"exp": 1})["exp"]))
        changes = {entry["ref"]: entry["value"] for entry in destination.get("assignments", [])}
        yield probability, state | {ref: state[v] if isinstance(v, str) else v for ref, v in changes.items()}


def goal_probability(model, choose):
    """Gaussian elimination in fractions on the Markov chain that `choose` (applicable edges -> edge) induces."""
    edges = model["automata"][0]["edges"]
    goal = model["properties"][0]["expression"]["values"]["exp"]["right"]
    names = [variable["name"] for variable in model["variables"]]
    start = {variable["name"]: variable["initial-value"] for variable in model["variables"]}
    index, states, equations = {tuple(start.values()): 0}, [start], []
    for state in states:  # grows while it is walked
        applicable = [i for i, edge in enumerate(edges) if holds(edge["guard"]["exp"], state)]
        if holds(goal, state):
            equations.append(({}, Fraction(1)))
            continue
        row = {}
        chosen = choose(np.array([[state[name] for name in names]], dtype=np.float32), applicable)
        for probability, following in successors(edges[chosen], state) if chosen is not None else ():
            key = tuple(following[name] for name in names)
            if key not in index:
                index[key] = len(states)
                states.append(following)
            row[index[key]] = row.get(index[key], 0) + probability
        equations.append((row, Fraction(0)))
    return solved(equations), len(states)


def solved(equations):
    """The least solution of p = row . p + constant at state 0: states that cannot reach the goal are 0."""
    good = {i for i, (_, constant) in enumerate(equations) if constant}
    while True:
        more = {i for i, (row, _) in enumerate(equations) if good & set(row)} - good
        if not more:
            break
        good |= more
    if 0 not in good:
        return Fraction(0)
    order = sorted(good)
    matrix = [[Fraction(int(i == j)) - equations[i][0].get(j, 0) for j in order] + [equations[i][1]] for i in order]
    size = len(order)
    for column in range(size):
        pivot = next(row for row in range(column, size) if matrix[row][column])
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        matrix[column] = [value / matrix[column][column] for value in matrix[column]]
        for row in range(size):
            if row != column and matrix[row][column]:
                factor = matrix[row][column]
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)]
    return matrix[0][size]


@pytest.mark.skipif(not (MODEL.is_file() and POLICIES.is_dir()), reason="the model or the policies are not here")
@pytest.mark.parametrize(("episode", "value"), [(999, 0.807572), (4999, 0.864566), (9999, 0.864566)])
def test_filtered_policies_have_the_recorded_goal_probability(episode, value):
    model = json.loads(MODEL.read_text(encoding="utf-8-sig"))
    policy = load_policy(POLICIES / f"episode_{episode}.json")
    count = len(model["automata"][0]["edges"])
    assert len(policy.outputs) == count

    def filtered(row, applicable):
        mask = np.isin(np.arange(count), applicable)[None]
        assert not near_ties(policy, row, mask)[0]
        choice = int(policy.choose(row, mask)[0])
        return None if choice < 0 else choice

    def raw(row, applicable):
        choice = int(policy.choose(row)[0])
        return choice if choice in applicable else None

    found, states = goal_probability(model, filtered)
    assert states > 10
    assert abs(found - Fraction(str(value))) < Fraction(1, 10**6)
    assert goal_probability(model, raw)[0] == 0
