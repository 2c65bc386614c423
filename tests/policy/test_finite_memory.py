from __future__ import annotations

import json
import random
from itertools import count

import pytest

from polvet.budget import Budget
from polvet.errors import LimitReached, Where
from polvet.policy.finite_memory import (
    Atom,
    Builder,
    Choice,
    Effect,
    dump_fmp,
    load_fmp,
    normalise,
    parse_edge_list,
    parse_fmp,
    to_graphviz,
    to_mermaid,
)
from polvet.policy.finite_memory.fmp import OPERATORS
from tests.termination.plans import iter_plans


def rich_plan():
    return (
        Builder("a", "b", semantics="mixed", name="rich")
        .variable("x", 2, None).variable("y", None, 9).variable("z", None, None).variable("w", -1, 4)
        .edge("a", "b", x=-1, y=Effect(1, None), guard="x >= 3 && z != 0 || w == 2", action="go")
        .edge_with_choices("b", "a", Choice({"w": Effect(-1, 2)}, "left"), Choice({"z": Effect(None, -1)}))
        .edge("b", "c", x=10**40, id="far").build()
    )  # fmt: skip


def test_fmp_json_round_trips():
    for fmp in (rich_plan(), *iter_plans(5, 30, bounds=True)):
        text = json.dumps(dump_fmp(fmp))
        assert parse_fmp(json.loads(text), Where("here")) == fmp
    assert f'"{10**40}"' in json.dumps(dump_fmp(rich_plan()))


def test_reading_a_large_plan_keeps_the_time_limit(tmp_path):
    """The clock goes on by one with every look: what is not read within a hundred looks is not read."""
    ring = Builder(*(f"q{k}" for k in range(200))).variable("x")
    for k in range(200):
        ring.edge(f"q{k}", f"q{(k + 1) % 200}", x=-1)
    file = tmp_path / "ring.json"
    file.write_text(json.dumps(dump_fmp(ring.build())))
    assert len(load_fmp(file, budget=Budget(1_000, clock=count().__next__)).edges) == 200
    with pytest.raises(LimitReached, match="time limit of 100 s"):
        load_fmp(file, budget=Budget(100, clock=count().__next__))


def test_an_edge_list_is_read_with_all_control_states_initial(tmp_path):
    file = tmp_path / "plan.txt"
    file.write_text('a b {"label": "x1-3"}\n\na b {"label": "x1+"}\nb a {"label": "x0+2, x1-1"}\n')
    fmp = load_fmp(file)
    assert fmp.initial == ("a", "b")
    assert [str(edge.choices[0].effects["x1"]) for edge in fmp.edges] == ["-3", "+1", "-1"]
    assert parse_fmp(dump_fmp(fmp), Where("x")).edges == fmp.edges


def test_drawings_name_every_state_and_edge():
    fmp = rich_plan()
    dot, mermaid = to_graphviz(fmp), to_mermaid(fmp)
    assert dot.count("->") == len(fmp.edges)
    assert mermaid.count("-->") == len(fmp.edges)
    assert 'label="a", peripheries=2' in dot
    assert "x >= 3 & z != 0 | w == 2 / go: x-1, y[+1, inf]" in dot
    quoted = to_graphviz(parse_edge_list('a"b c', Where("x")))
    assert '\\"' in quoted


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_atom_s_interval_holds_every_value_that_satisfies_it(operator):
    atom = Atom("x", operator, 3)
    low, high = atom.interval()
    for value in range(-10, 10):
        if atom.holds(value):
            assert low is None or value >= low
            assert high is None or value <= high
    assert [value for value in range(0, 7) if atom.holds(value)] == [
        v for v in range(0, 7) if eval(f"{v} {operator} 3")
    ]


def concrete_successors(fmp, state, values):
    """Return every (state, valuation) one step away, by brute force over small amounts."""
    found = []
    names = [variable.name for variable in fmp.variables]
    for edge in fmp.edges:
        if edge.source != state or not edge.is_open(values):
            continue
        for choice in edge.choices:
            options = [dict(values)]
            for name in names:
                effect = fmp.effect(choice, name)
                options = [
                    {**option, name: option[name] + d} for option in options for d in range(-4, 5) if effect.allows(d)
                ]
            found += [(edge.target, o) for o in options if all(v.admits(o[v.name]) for v in fmp.variables)]
    return found


def test_every_step_of_a_plan_is_a_step_of_its_multigraph_whatever_is_tracked():
    rng = random.Random(3)
    steps = 0
    for _ in range(60):
        builder = Builder("q0").variable("x", *rng.choice([(0, None), (None, None), (0, 4)])).variable("y", 0, None)
        for index in range(4):
            guard = rng.choice(["true", "x >= 1", "x == 2", "x != 1 && y <= 2", "x < 3 || y > 1", "y == 0"])
            effects = {"x": rng.choice([-2, -1, 0, 1, Effect(-1, 2)]), "y": rng.randint(-1, 1)}
            builder.edge(f"q{index % 2}", f"q{rng.randrange(2)}", effects, guard=guard)
        fmp = builder.build()
        graph = normalise(fmp, rng.choice([{}, {"x": (0, 2)}, {"y": (1, 2), "x": (0, 4)}]))
        numbers = {variable.name: index for index, variable in enumerate(fmp.variables)}

        def holds(node, state, values, graph=graph):
            return node.state == state and all(
                (low is None or values[name] >= low) and (high is None or values[name] <= high)
                for name, (low, high) in zip(graph.tracked, node.classes, strict=True)
            )

        here = {"x": rng.randint(0, 4), "y": rng.randint(0, 3)}
        state = "q0"
        for _ in range(6):
            nodes = [i for i, node in enumerate(graph.nodes) if holds(node, state, here)]
            assert len(nodes) == 1
            following = concrete_successors(fmp, state, here)
            for target, values in following:
                assert any(
                    edge.source == nodes[0] and holds(graph.nodes[edge.target], target, values)
                    and all(edge.effects[numbers[n]].allows(values[n] - here[n]) for n in here)
                    and all((lo is None or here[n] >= lo) and (hi is None or here[n] <= hi)
                            for n in here for lo, hi in [edge.before[numbers[n]]])
                    for edge in graph.edges
                )  # fmt: skip
                steps += 1
            if not following:
                break
            state, here = rng.choice(following)
    assert steps > 300


def test_tracking_too_many_values_is_a_limit():
    fmp = Builder("q").edge("q", "q", x=1).build()
    with pytest.raises(LimitReached, match="more than 10 nodes"):
        normalise(fmp, {"x": (0, 50)}, max_nodes=10)
