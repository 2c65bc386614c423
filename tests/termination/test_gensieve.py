from __future__ import annotations

import random

import pytest

from polvet.errors import LimitReached
from polvet.policy.finite_memory import Builder, load_fmp, normalise
from polvet.termination.complete import Cycle, find_ranking
from polvet.termination.decide import terminates
from polvet.termination.elimination import elimination_forest, first_vertex, lowest_remaining_height, random_vertex
from polvet.termination.gensieve import gensieve
from polvet.termination.progress_sieve import progress_sieve
from polvet.termination.sieve import sieve
from polvet.termination.trace import trace_lines, trace_rounds
from polvet.verdict import Verdict
from tests.termination.plans import BENCHMARKS, iter_plans

SIEVE = BENCHMARKS / "fmp-sieve"
published = pytest.mark.skipif(not SIEVE.exists(), reason="the published edge lists are not here")
PROVED = ["T_mn", "T_phi2_4_2", "T_phi3_5", "T_phi5_7", "T_phi6_8", "T_phi7_10"]


def example_1():
    """Fig. 1: one cycle of three edges with x-1, x-1, x+1."""
    return Builder("q0").edge("q0", "q1", x=-1).edge("q1", "q2", x=-1).edge("q2", "q0", x=1).build()


def test_example_1_is_beyond_sieve_and_within_gensieve():
    graph = normalise(example_1())
    assert not sieve(graph).proves_termination
    assert not progress_sieve(graph).proves_termination
    assert gensieve(graph, first_vertex).proves_termination


def test_example_1_does_not_terminate_under_qualitative_semantics():
    fmp = example_1()
    qualitative = type(fmp)(fmp.variables, fmp.control_states, fmp.initial, fmp.edges, "qualitative")
    assert terminates(qualitative, method="progress-sieve").verdict is Verdict.NONTERMINATING
    assert terminates(fmp, method="progress-sieve").verdict is Verdict.UNKNOWN


@published
@pytest.mark.parametrize("name", PROVED)
def test_gensieve_proves_the_paper_s_figures_where_sieve_fails(name):
    graph = normalise(load_fmp(SIEVE / f"{name}.txt"))
    assert not sieve(graph).proves_termination
    rng = random.Random(0)
    choosers = [lowest_remaining_height, *(random_vertex(rng) for _ in range(19))]
    assert any(gensieve(graph, choose).proves_termination for choose in choosers)


@published
def test_phi_1_takes_two_rounds_and_the_first_removes_the_edges_that_lower_x2():
    fmp = load_fmp(SIEVE / "T_mn.txt")
    graph = normalise(fmp)
    q2 = graph.names.index("q2")

    def drawn(vertices, edges, ends):
        """Choose the elimination points drawn in Fig. 2b as far as the text names them: q2, q7 and q0."""
        for name in ("q2", "q7", "q0"):
            if graph.names.index(name) in vertices:
                return graph.names.index(name)
        return vertices[0]

    trace = gensieve(graph, drawn)
    assert trace.proves_termination
    assert len(trace.rounds) == 2
    [root] = [turn for turn in trace.rounds[0] if turn.tree.point == q2]
    children = [{graph.names[vertex] for vertex in child.vertices} for child in root.tree.children]
    assert sorted(map(sorted, children)) == [["q0", "q1"], ["q4", "q5", "q6", "q7"]]
    lowering = {edge.id for edge in fmp.edges if "x2" in edge.choices[0].effects and edge.source in ("q0", "q1")}
    assert {graph.edges[edge].edge for edge in root.removed} == lowering
    assert root.variables == ("x2",)


def test_the_trace_tells_forest_and_removed_edges_of_every_round():
    fmp = Builder("a").edge("a", "a", x=-1, y=1).edge("a", "b", y=-1).edge("b", "a", y=0).edge("b", "b", z=-1).build()
    graph = normalise(fmp)
    trace = gensieve(graph, first_vertex)
    rounds = trace_rounds(graph, trace)
    assert rounds[0][0]["forest"] == [
        {"states": ["a", "b"], "point": "a", "parent": None},
        {"states": ["b"], "point": "b", "parent": 0},
    ]
    assert rounds[0][0]["removed"] == [0, 3]
    lines = trace_lines(graph, trace)
    assert lines[:2] == ["round 1: <a b; a> [<b; b>]", "  removed edges 0, 3 (they lower x, z)"]
    assert lines[-1] == "  every path lowers a variable that none raises"


@published
def test_phi_6_has_a_forest_whose_first_round_removes_the_edges_that_lower_x0():
    graph = normalise(load_fmp(SIEVE / "T_phi6_8.txt"))
    traces = [gensieve(graph, random_vertex(random.Random(seed))) for seed in range(40)]
    first = [
        {name for turn in trace.rounds[0] for name in turn.variables} for trace in traces if trace.proves_termination
    ]
    assert {"x0"} in first


@published
def test_phi_9_depends_on_the_forest():
    graph = normalise(load_fmp(SIEVE / "T_DET_dependent_edge_list_jumps3.txt"))

    def first_of(names):
        return lambda vertices, edges, ends: next(v for v in map(graph.names.index, names) if v in vertices)

    assert gensieve(graph, first_of("EBACDF")).proves_termination
    assert not gensieve(graph, first_of("BCEADF")).proves_termination


def test_gensieve_never_contradicts_the_complete_test_and_removes_only_what_ends():
    proved = 0
    for number, fmp in enumerate(iter_plans(11, 250, states=(2, 6), variables=(1, 4))):
        graph = normalise(fmp)
        ends = not isinstance(find_ranking(graph), Cycle)
        for choose in (lowest_remaining_height, random_vertex(random.Random(number))):
            if gensieve(graph, choose).proves_termination:
                proved += 1
                assert ends
        for trace in (sieve(graph), progress_sieve(graph)):
            assert ends or not trace.proves_termination
    assert proved > 60


def test_a_net_zero_path_that_touches_a_variable_protects_its_edges():
    # Ignoring ZV would remove a->b and a->a and call this terminating.
    fmp = Builder("a").edge("a", "b", x=-1).edge("b", "a", x=1).edge("a", "a", x=-1).build()
    assert not any(
        gensieve(normalise(fmp), choose).proves_termination for choose in (first_vertex, lowest_remaining_height)
    )


def test_parallel_edges_stay_apart():
    fmp = Builder("a").edge("a", "b", x=-1).edge("a", "b", x=1).edge("b", "a").build()
    assert not gensieve(normalise(fmp), first_vertex).proves_termination


def test_two_loops_with_unequal_weights_defeat_every_forest():
    fmp = Builder("q").edge("q", "q", x=-2, y=1).edge("q", "q", x=1, y=-1).build()
    assert not gensieve(normalise(fmp), first_vertex).proves_termination
    assert terminates(fmp).verdict is Verdict.TERMINATING


def test_an_elimination_tree_takes_one_vertex_out_of_every_component():
    for fmp in iter_plans(12, 30):
        graph = normalise(fmp)
        ends = [(edge.source, edge.target) for edge in graph.edges]
        agenda = list(elimination_forest(range(len(ends)), ends, lowest_remaining_height))
        while agenda:
            tree = agenda.pop()
            assert tree.point in tree.vertices
            for child in tree.children:
                assert set(child.vertices) < set(tree.vertices) - {tree.point}
                assert set(child.edges) < set(tree.edges)
            agenda.extend(tree.children)


def test_the_budget_ends_gensieve_as_unknown():
    fmp = next(iter(iter_plans(13, 1, states=(12, 12))))
    with pytest.raises(LimitReached, match="budget of 3 steps"):
        gensieve(normalise(fmp), first_vertex, most_steps=3)
    result = terminates(fmp, method="gensieve", most_steps=3)
    assert result.verdict is Verdict.UNKNOWN
    assert "budget" in result.reason
