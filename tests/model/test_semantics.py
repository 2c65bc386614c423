"""What models mean, by small examples worked out by hand: the interpreter and the kernel agree with each of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from polvet.errors import InputError, ModelError
from polvet.kernel.compiled import Compiled
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Destination,
    Edge,
    Instance,
    Location,
    Model,
    ModelType,
    Synchronisation,
    VariableDeclaration,
)  # fmt: skip
from polvet.model.expressions import BoolLiteral, Element, Expression, IntLiteral, Name
from polvet.model.infix import parse_expression
from polvet.model.instantiate import instantiate
from polvet.model.network import Network, OutOfBounds
from polvet.model.semantics import LeavesBounds, Semantics
from polvet.model.types import BOOL, ArrayType, IntType

SMALL = IntType(IntLiteral(0), IntLiteral(9))


def number(name: str, initial: int | None = 0, **options) -> VariableDeclaration:
    return VariableDeclaration(name, SMALL, None if initial is None else IntLiteral(initial), **options)


def put(target: str, value: str, index: int = 0) -> Assignment:
    place = parse_expression(target)
    assert isinstance(place, Name | Element)
    return Assignment(place, parse_expression(value), index)


def edge(action: str | None, *updates: Assignment, guard: str | None = None, source="l", to="l") -> Edge:
    condition: Expression | None = None if guard is None else parse_expression(guard)
    return Edge(source, action, condition, (Destination(to, None, updates),))


def automaton(name: str, *edges: Edge, **options) -> Automaton:
    return Automaton(name, options.pop("locations", (Location("l"),)), options.pop("initial", ("l",)), edges, **options)


def network(*automata: Automaton, variables=(), syncs=None, enable=None, kind=ModelType.MDP, **options) -> Network:
    instances = tuple(Instance(one.name, (enable or {}).get(one.name, ())) for one in automata)
    vectors = None if syncs is None else tuple(Synchronisation(tuple(actions), result) for actions, result in syncs)
    actions = tuple(dict.fromkeys(e.action for one in automata for e in one.edges if e.action))
    return instantiate(
        Model("m", kind, automata, Composition(instances, vectors), actions, (), tuple(variables), **options)
    )


def steps(net: Network, state=None) -> list[tuple[str | None, dict[tuple, Fraction]]]:
    """The moves of the (first initial) state as (label, distribution), the same from the interpreter and the kernel."""
    semantics, compiled = Semantics(net), Compiled(net)
    state = next(semantics.initial_states()) if state is None else state
    slow = [(m.label, {o.state: o.probability for o in m.outcomes}) for m in semantics.moves(state)]
    fast = []
    for label, _, branches in compiled.machine.moves(compiled.pack([state])[0]):
        import numpy as np

        targets = compiled.unpack(np.array([words for _, words, _ in branches], dtype=np.uint64))
        fast.append(
            (net.labels[label] if label >= 0 else None, dict(zip(targets, (p for p, _, _ in branches), strict=True)))
        )
    key = lambda move: (move[0] or "~", sorted(move[1]))  # noqa: E731
    assert sorted(fast, key=key) == [(la, {s: float(p) for s, p in d.items()}) for la, d in sorted(slow, key=key)]
    return slow


def test_assignments_of_one_index_happen_at_once():
    swap = automaton("A", edge("swap", put("x", "y"), put("y", "x")))
    assert steps(network(swap, variables=[number("x", 1), number("y", 2)])) == [("swap", {(2, 1): 1})]


def test_assignments_of_a_later_index_see_the_earlier_ones():
    one = automaton("A", edge("go", put("y", "x + 1", 1), put("x", "5", 0)))
    assert steps(network(one, variables=[number("x", 1), number("y", 2)])) == [("go", {(5, 6): 1})]


def test_indices_count_across_all_participating_edges():
    first, second = automaton("A", edge("a", put("x", "3", 0))), automaton("B", edge("b", put("y", "x * 2", 1)))
    net = network(first, second, variables=[number("x"), number("y")], syncs=[(("a", "b"), "c")])
    assert steps(net) == [("c", {(3, 6): 1})]


def test_partners_of_one_index_read_the_state_before_the_step():
    first, second = automaton("A", edge("a", put("x", "y + 1"))), automaton("B", edge("b", put("y", "x + 1")))
    net = network(first, second, variables=[number("x", 3), number("y", 5)], syncs=[(("a", "b"), "c")])
    assert steps(net) == [("c", {(6, 4): 1})]


def test_a_variable_written_by_both_partners_is_reported_with_the_state():
    first, second = automaton("A", edge("a", put("x", "1"))), automaton("B", edge("b", put("x", "1")))
    net = network(first, second, variables=[number("x")], syncs=[(("a", "b"), "c")])
    with pytest.raises(ModelError, match=r"'x' is assigned twice at once in state x=0"):
        Semantics(net).moves((0,))
    with pytest.raises(ModelError, match=r"'x' is assigned twice"):
        Compiled(net).explore()


def test_an_action_in_no_synchronisation_is_blocked_and_silent_edges_move_alone():
    one = automaton("A", edge("a", put("x", "1")), edge("b", put("x", "2")), edge(None, put("x", "3")))
    net = network(one, variables=[number("x")], syncs=[(("a",), "a")])
    assert sorted(steps(net), key=str) == sorted([("a", {(1,): 1}), (None, {(3,): 1})], key=str)


def test_without_any_synchronisation_every_labelled_edge_moves_alone():
    net = network(automaton("A", edge("a", put("x", "1"))), automaton("B", edge("a", put("y", "1"))),
                  variables=[number("x"), number("y")])  # fmt: skip
    assert steps(net) == [("a", {(1, 0): 1}), ("a", {(0, 1): 1})]


def test_a_result_left_out_makes_a_synchronisation_silent():
    net = network(automaton("A", edge("a", put("x", "1"))), variables=[number("x")], syncs=[(("a",), None)])
    assert net.labels == ()
    assert steps(net) == [(None, {(1,): 1})]
    assert Semantics(net).applicable((0,)) == ()


def test_outcomes_of_a_label_include_what_the_environment_may_do():
    one = automaton("A", edge("a", put("x", "1")), edge("b", put("x", "2")), edge(None, put("x", "3")))
    semantics = Semantics(network(one, variables=[number("x")]))
    assert semantics.outcomes((0,), "a") == {(1,), (3,)}
    assert semantics.applicable((0,)) == ("a", "b")


def test_an_input_enabled_partner_idles_where_it_has_no_edge_to_offer():
    first = automaton("A", edge("a", put("x", "x + 1"), guard="x < 2"))
    second = automaton("B", edge("a", put("y", "y + 1"), guard="x == 0"))
    variables = [number("x"), number("y")]
    net = network(first, second, variables=variables, syncs=[(("a", "a"), "a")], enable={"B": ("a",)})
    assert steps(net, (0, 0)) == [("a", {(1, 1): 1})]
    assert steps(net, (1, 1)) == [("a", {(2, 1): 1})]
    assert steps(network(first, second, variables=variables, syncs=[(("a", "a"), "a")]), (1, 1)) == []


def test_a_transient_variable_has_the_value_its_location_gives_it():
    t = VariableDeclaration("t", SMALL, IntLiteral(7), transient=True)
    places = (Location("l", (Assignment(Name("t"), parse_expression("x + 1")),)), Location("m"))
    one = automaton("A", edge("a", guard="t == 1", to="m"), edge("b", guard="t == 7", source="m"), locations=places)
    net = network(one, variables=[number("x"), t])
    assert [label for label, _ in steps(net, (0, 0))] == ["a"]
    assert [label for label, _ in steps(net, (0, 1))] == ["b"]
    assert net.variables[-1].name == "A.location"


def test_a_transient_variable_starts_each_edge_from_its_initial_value():
    t = VariableDeclaration("t", SMALL, IntLiteral(2), transient=True)
    one = automaton("A", edge("a", put("t", "t + 3", 0), put("x", "t", 1)))
    net = network(one, variables=[number("x"), t])
    assert steps(net, (0,)) == [("a", {(5,): 1})]
    assert steps(net, (5,)) == [("a", {(5,): 1})]


def test_initial_states_are_all_values_that_satisfy_every_restriction():
    one = automaton("A", locations=(Location("l"), Location("m"), Location("n")), initial=("l", "n"),
                    restrict_initial=parse_expression("x > 6"))  # fmt: skip
    flag = VariableDeclaration("f", BOOL, BoolLiteral(True))
    net = network(one, variables=[number("x", None), flag], restrict_initial=parse_expression("x % 2 == 0 || !f"))
    assert set(Semantics(net).initial_states()) == {(8, True, 0), (8, True, 2)}
    assert len(Compiled(net).explore().initial) == 2


def test_an_assignment_out_of_bounds_is_an_error_or_turns_its_operator_off():
    one = automaton("A", edge("a", put("x", "x + 10")), edge("b", put("x", "9")))
    net = network(one, variables=[number("x")])
    with pytest.raises(LeavesBounds, match=r"'x' is assigned 10, outside \[0, 9\], in state x=0"):
        Semantics(net).moves((0,))
    net = replace(net, out_of_bounds=OutOfBounds.DISABLE)
    assert [move.label for move in Semantics(net).moves((0,))] == ["b"]
    assert len(Compiled(net).explore()) == 2


def test_arrays_are_scalars_and_a_computed_index_selects_one():
    cells = VariableDeclaration("a", ArrayType(SMALL), parse_expression("[4, 5, 6]"))
    one = automaton("A", edge("go", put("a[i]", "a[2 - i] + 1"), put("i", "i + 1")))
    net = network(one, variables=[number("i"), cells])
    assert [variable.name for variable in net.variables] == ["i", "a[0]", "a[1]", "a[2]"]
    assert steps(net) == [("go", {(1, 7, 5, 6): 1})]
    with pytest.raises(ModelError, match="index 3 is outside an array of 3 elements"):
        Semantics(net).moves((3, 4, 5, 6))


def test_two_instances_of_an_automaton_have_their_own_variables():
    part = automaton("A", edge("a", put("x", "x + 1"), guard="x < 1"), variables=(number("x"),))
    model = Model("m", ModelType.MDP, (part,), Composition((Instance("A"), Instance("A"))), ("a",))
    net = instantiate(model)
    assert [variable.name for variable in net.variables] == ["A.x", "A#2.x"]
    assert len(Compiled(net).explore()) == 4


def test_in_a_markov_chain_enabled_operators_are_equally_likely():
    from polvet.mdp.build import build, build_exactly

    one = automaton("A", edge(None, put("x", "1"), guard="x == 0"), edge(None, put("x", "2"), guard="x == 0"))
    net = network(one, variables=[number("x")], kind=ModelType.DTMC)
    assert sorted(build(net).mdp.probability) == [0.5, 0.5]
    assert build_exactly(net).mdp.choices == 1


def test_probabilities_may_depend_on_the_state_and_zero_ones_lead_nowhere():
    weighted = Edge("l", "a", None, (
        Destination("l", parse_expression("x / 4"), (put("x", "x + 1"),)),
        Destination("l", parse_expression("1 - x / 4"), (put("x", "0"),)),
    ))  # fmt: skip
    net = network(automaton("A", weighted), variables=[number("x")])
    assert steps(net, (1,)) == [("a", {(2,): Fraction(1, 4), (0,): Fraction(3, 4)})]
    assert steps(net, (4,)) == [("a", {(5,): 1})]
    with pytest.raises(ModelError, match=r"5/4 \+ -1/4 in state x=5 are not a distribution"):
        Semantics(net).moves((5,))
    with pytest.raises(ModelError):
        Compiled(net).explore(Compiled(net).pack([(4,)]))


def test_constants_in_a_circle_and_without_value_are_refused():
    from polvet.model.automata import Constant
    from polvet.model.types import INT

    circle = (Constant("a", INT, Name("b")), Constant("b", INT, Name("a")))
    part = automaton("A")
    with pytest.raises(InputError, match="circle: a -> b -> a"):
        instantiate(Model("m", ModelType.MDP, (part,), Composition((Instance("A"),)), constants=circle))
    with pytest.raises(InputError, match="constant 'c' has no value"):
        instantiate(Model("m", ModelType.MDP, (part,), Composition((Instance("A"),)), constants=(Constant("c", INT),)))


def test_many_edges_are_found_by_the_value_their_guards_begin_with(monkeypatch):
    """The same moves, in the same order, and the same errors as where every edge is asked."""
    guards = [f"x = {k % 7} & y < {k % 5 + 1}" for k in range(30)]
    guards += ["y = 3", "x > 2", "x = 4", "x = 2 & 6 / (y - 1) > 1", "y = 2 & x = 1"]
    edges = [edge("ab"[k % 2], put("y", "y"), guard=text) for k, text in enumerate(guards)]
    net = network(automaton("A", *edges), variables=[number("x"), number("y")])

    def answers(semantics: Semantics) -> list[object]:
        found: list[object] = []
        for state in ((x, y) for x in range(10) for y in range(10)):
            try:
                found.append(semantics.moves(state))
            except InputError as error:
                found.append(str(error))
        return found

    indexed = answers(Semantics(net))
    monkeypatch.setattr("polvet.model.semantics.FEW_EDGES", 10**9)
    assert indexed == answers(Semantics(net))
    assert any(isinstance(one, str) for one in indexed)
