"""Well-formedness: what the checker refuses, where it says so, and the types of expressions."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.errors import InputError, Where
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Constant,
    Destination,
    Edge,
    Function,
    Instance,
    Location,
    Model,
    ModelType,
    Synchronisation,
    VariableDeclaration,
)
from polvet.model.expressions import (
    TRIGONOMETRIC,
    ArrayBuild,
    ArrayLiteral,
    Binary,
    BoolLiteral,
    Call,
    Conditional,
    Element,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Select,
    Unary,
)
from polvet.model.properties import Property
from polvet.model.typecheck import Names, Signature, accepts, type_of, types_of
from polvet.model.types import BOOL, INT, REAL, ArrayType, IntType, RealType
from polvet.model.wellformed import check_model

X, J, R, B, A = Name("x"), Name("i"), Name("r"), Name("b"), Name("a")
ONE, HALF = IntLiteral(1), RealLiteral(Fraction(1, 2))
NAMES = Names(
    {"i": INT, "x": INT, "r": REAL, "b": BOOL, "a": ArrayType(INT), "m": ArrayType(ArrayType(REAL))},
    {"f": Signature((INT, REAL), BOOL), "g": Signature((), INT)},
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (J, INT),
        (MathConstant("π"), REAL),
        (Binary("+", J, ONE), INT),
        (Binary("+", J, HALF), REAL),
        (Binary("/", J, ONE), REAL),
        (Binary("pow", J, ONE), INT),
        (Binary("log", J, ONE), REAL),
        (Binary("%", J, ONE), INT),
        (Binary("min", J, R), REAL),
        (Binary("=", B, B), BOOL),
        (Binary("≠", J, R), BOOL),
        (Binary("≤", J, R), BOOL),
        (Binary("⇒", B, B), BOOL),
        (Unary("floor", R), INT),
        (Unary("trc", R), INT),
        (Unary("sgn", R), INT),
        (Unary("abs", R), REAL),
        (Unary("abs", J), INT),
        (Unary("exp", J), REAL),
        (Unary("¬", B), BOOL),
        (Conditional(B, J, R), REAL),
        (Conditional(B, A, ArrayLiteral((HALF,))), ArrayType(REAL)),
        (Call("f", (J, J)), BOOL),
        (Call("g", ()), INT),
        (Element(A, J), INT),
        (Element(Element(Name("m"), J), ONE), REAL),
        (ArrayLiteral((J, R)), ArrayType(REAL)),
        (ArrayBuild("k", ONE, Binary("*", Name("k"), HALF)), ArrayType(REAL)),
        (ArrayBuild("b", ONE, Name("b")), ArrayType(INT)),
        (Select((J,), (2,), (J, R)), REAL),
        *((Unary(name, J), REAL) for name in TRIGONOMETRIC),
    ],
)
def test_expressions_have_the_types_of_janis_rules(expression, expected):
    assert type_of(expression, NAMES) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (Name("xx"), r"^m: no variable or constant 'xx' here. Did you mean 'x'\?"),
        (Binary("+", J, B), r"^m: '\+' takes a number, not a bool"),
        (Binary("+", Binary("∧", B, J), J), r"^m: left: '∧' takes bool, not an int"),
        (Binary("%", J, R), r"^m: '%' takes int, not a real"),
        (Binary("=", J, B), r"^m: '=' compares an int with a bool"),
        (Binary("=", A, A), r"^m: '=' compares an array of int with an array of int"),
        (Binary("<", B, J), r"^m: '<' takes a number, not a bool"),
        (Unary("¬", J), r"^m: '¬' takes bool, not an int"),
        (Unary("floor", B), r"^m: 'floor' takes a number, not a bool"),
        (Conditional(J, J, J), r"^m: 'ite' takes bool, not an int"),
        (Conditional(B, J, B), r"^m: 'ite' chooses between an int and a bool"),
        (Call("f", (J,)), r"^m: the function 'f' takes 2 arguments, not 1"),
        (Call("f", (R, R)), r"^m: argument 0 of 'f' is a real; an int is expected"),
        (Call("h", ()), r"^m: no function 'h' here"),
        (Element(J, J), r"^m: an element of an int is asked for"),
        (Element(A, R), r"^m: the index of an array is a real"),
        (ArrayLiteral((J, B)), r"^m: an array of int holds a bool"),
        (ArrayBuild("k", R, ONE), r"^m: the length of an array is a real"),
        (ArrayBuild("k", ONE, Name("kk")), r"^m: exp: no variable or constant 'kk' here. Did you mean 'k'\?"),
        (Call("f", (ONE, Unary("exp", Name("q")))), r"^m: args\[1\]\.exp: no variable or constant 'q'"),
        (Binary("+", Name("k"), ArrayBuild("k", ONE, Name("k"))), r"^m: left: no variable or constant 'k'"),
    ],
)
def test_what_has_no_type_is_refused_with_its_place_in_the_expression(expression, message):
    with pytest.raises(InputError, match=message) as caught:
        type_of(expression, NAMES, Where("m"))
    assert caught.value.hint


def test_an_empty_array_fits_every_array_and_no_scalar():
    empty = type_of(ArrayLiteral(()), NAMES)
    assert accepts(ArrayType(INT), empty)
    assert accepts(ArrayType(ArrayType(BOOL)), empty)
    assert not accepts(INT, empty)
    assert type_of(Conditional(B, ArrayLiteral(()), A), NAMES) == ArrayType(INT)


def test_a_long_chain_needs_no_recursion():
    chain = J
    for _ in range(100_000):
        chain = Binary("+", chain, ONE)
    assert type_of(chain, NAMES) == INT


LITERALS = {INT: ONE, REAL: HALF, BOOL: BoolLiteral(True)}


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_int_is_accepted_where_real_is_and_never_the_other_way_round(data):
    # Whatever accepts a real literal accepts an integer literal in its place.
    operator = data.draw(st.sampled_from(("+", "*", "min", "<", "≥", "/", "log", "pow")))
    other = data.draw(st.sampled_from((INT, REAL)))
    with_real = type_of(Binary(operator, HALF, LITERALS[other]), NAMES)
    with_int = type_of(Binary(operator, ONE, LITERALS[other]), NAMES)
    assert accepts(with_real, with_int)
    assert with_real is BOOL or not accepts(INT, with_real)


def model(**changes) -> Model:
    """Return a small well-formed model, some of its parts exchanged."""
    edge = changes.pop("edge", None) or Edge("l", "go", None, (Destination("l"),))
    automaton = changes.pop("automaton", None) or Automaton("A", (Location("l"),), ("l",), (edge,))
    parts = {
        "actions": ("go",),
        "constants": (Constant("N", INT),),
        "variables": (VariableDeclaration("x", INT, ONE), VariableDeclaration("r", REAL, ONE)),
        "system": Composition((Instance("A"),)),
    }
    return Model("m", ModelType.MDP, changes.pop("automata", (automaton,)), **{**parts, **changes})


def assigning(*assignments: Assignment) -> Model:
    return model(edge=Edge("l", None, None, (Destination("l", None, assignments),)))


def variable(kind, initial=None, **more) -> Model:
    return model(variables=(VariableDeclaration("x", kind, initial, **more),))


def function(name, body, *parameters, kind=INT) -> Function:
    return Function(name, kind, tuple((parameter, INT) for parameter in parameters), body)


def test_the_small_model_is_well_formed():
    check_model(model())
    assert types_of(model()).types == {"N": INT, "x": INT, "r": REAL}


N, F = Name("N"), Call("f", ())
TWO = IntLiteral(2)
BROKEN = {
    "two constants of one name": (
        model(constants=(Constant("N", INT), Constant("N", INT))),
        "the name 'N' of this constant is taken by another constant. Rename",
    ),
    "a variable named like a constant": (
        model(variables=(VariableDeclaration("N", INT),)),
        "the name 'N' of this variable is taken by another constant",
    ),
    "a local variable named like a global one": (
        model(automaton=Automaton("A", (Location("l"),), ("l",), (), (VariableDeclaration("x", INT),))),
        "the name 'x' of this variable is taken by another variable",
    ),
    "two actions of one name": (model(actions=("go", "go")), "actions[1].name: the name 'go' of this action is taken"),
    "two automata of one name": (
        model(automata=(Automaton("A", (Location("l"),), ("l",), ()),) * 2),
        "the name 'A' of this automaton is taken",
    ),
    "two locations of one name": (
        model(automaton=Automaton("A", (Location("l"), Location("l")), ("l",), ())),
        "the name 'l' of this location is taken",
    ),
    "two functions of one name": (
        model(functions=(function("f", ONE), function("f", ONE))),
        "the name 'f' of this function is taken",
    ),
    "two properties of one name": (
        model(properties=(Property("p", X), Property("p", X))),
        "the name 'p' of this property is taken",
    ),
    "two parameters of one name": (
        model(functions=(function("f", ONE, "k", "k"),)),
        "the name 'k' of this parameter is taken",
    ),
    "a constant that depends on itself": (
        model(constants=(Constant("N", INT, Binary("+", N, ONE)),)),
        "constants depend on each other: N -> N. Give one",
    ),
    "constants in a circle": (
        model(constants=(Constant("N", INT, Name("M")), Constant("M", IntType(None, N), ONE))),
        "constants depend on each other: N -> M -> N",
    ),
    "a recursive function": (
        model(functions=(function("f", Call("f", (Name("k"),)), "k"),)),
        "functions call each other in a circle: f -> f. JANI's functions do not recurse",
    ),
    "functions in a circle": (
        model(functions=(function("f", Call("g", ())), function("g", Unary("abs", Call("h", ()))), function("h", F))),
        "functions call each other in a circle: f -> g -> h -> f",
    ),
    "a constant over a variable": (
        model(constants=(Constant("N", INT, X),)),
        "no variable or constant 'x' here",
    ),
    "a constant over a function that reads a variable": (
        model(constants=(Constant("N", INT, F),), functions=(function("f", Call("g", ())), function("g", X))),
        "the function 'f' reads variables. Use constants alone here",
    ),
    "a constant of the wrong type": (
        model(constants=(Constant("N", INT, HALF),)),
        "the constant 'N' of type int cannot take a value of type real. Convert",
    ),
    "a constant outside its bounds": (
        model(constants=(Constant("N", IntType(ONE, TWO), IntLiteral(3)),)),
        "the value 3 of the constant 'N' is not between 1 and 2",
    ),
    "a bound over a variable": (
        variable(IntType(None, X)),
        "no variable or constant 'x' here",
    ),
    "a real bound of an integer": (variable(IntType(HALF, None)), "the bound of int is real. Use floor or ceil"),
    "a bool as a bound": (variable(RealType(BoolLiteral(True), None)), "the bound of real is bool"),
    "empty bounds": (variable(IntType(TWO, ONE)), "the bounds 2 to 1 leave no value. Exchange"),
    "empty bounds in an array": (variable(ArrayType(IntType(TWO, ONE))), "type.base: the bounds 2 to 1 leave no value"),
    "an initial value outside its bounds": (
        variable(IntType(ONE, TWO), IntLiteral(0)),
        "initial-value: the value 0 of the variable 'x' is not between 1 and 2",
    ),
    "an array with an initial value outside its bounds": (
        variable(ArrayType(IntType(ONE, None)), ArrayLiteral((ONE, IntLiteral(0)))),
        "the value 0 of the variable 'x' is not between 1 and ...",
    ),
    "an initial value of the wrong type": (
        variable(BOOL, ONE),
        "the variable 'x' of type bool cannot take a value of type int",
    ),
    "a transient variable without initial value": (
        variable(INT, transient=True),
        "the transient variable 'x' has no initial value. Add 'initial-value'",
    ),
    "a function with a body of another type": (
        model(functions=(function("f", HALF),)),
        "the function 'f' of type int cannot take a value of type real",
    ),
    "an initial restriction that is no condition": (
        model(restrict_initial=X),
        "restrict-initial.exp: a condition is expected, not a value of type int",
    ),
    "an automaton that starts nowhere": (
        model(automaton=Automaton("A", (Location("l"),), (), ())),
        "the automaton 'A' starts nowhere",
    ),
    "an unknown initial location": (
        model(automaton=Automaton("A", (Location("loc"),), ("lok",), ())),
        "initial-locations[0]: no location 'lok'. Did you mean 'loc'?",
    ),
    "a value in a location of a variable with memory": (
        model(automaton=Automaton("A", (Location("l", (Assignment(X, ONE),)),), ("l",), ())),
        "the variable 'x' is not transient and has no value in a location. Declare it transient",
    ),
    "an unknown source": (model(edge=Edge("k", None, None, (Destination("l"),))), "location: no location 'k'"),
    "an unknown destination": (model(edge=Edge("l", None, None, (Destination("k"),))), "location: no location 'k'"),
    "an unknown action": (
        model(edge=Edge("l", "goo", None, (Destination("l"),))),
        "action: no action 'goo'. Did you mean 'go'?",
    ),
    "a guard that is no condition": (
        model(edge=Edge("l", None, X, (Destination("l"),))),
        "guard.exp: a condition is expected, not a value of type int",
    ),
    "an edge that leads nowhere": (model(edge=Edge("l", None, None, ())), "destinations: an edge leads nowhere"),
    "probabilities off 1": (
        model(edge=Edge("l", None, None, (Destination("l", HALF), Destination("l", RealLiteral(Fraction(1, 4)))))),
        "destinations: the probabilities of an edge sum to 0.75. Make it 1",
    ),
    "two destinations without probability": (
        model(edge=Edge("l", None, None, (Destination("l"), Destination("l")))),
        "the probabilities of an edge sum to 2",
    ),
    "a negative probability": (
        model(edge=Edge("l", None, None, (Destination("l", IntLiteral(-1)), Destination("l", TWO)))),
        "probability.exp: a probability is -1. Write a number from 0 to 1",
    ),
    "a probability that is no number": (
        model(edge=Edge("l", None, None, (Destination("l", BoolLiteral(True)),))),
        "a probability is bool, not a number",
    ),
    "an assignment to a constant": (
        assigning(Assignment(N, ONE)),
        "assignments[0].ref: 'N' is a constant and keeps its value. Use a variable",
    ),
    "an assignment to nothing": (assigning(Assignment(Name("xs"), ONE)), "no variable 'xs'. Did you mean 'x'?"),
    "a real assigned to an integer": (
        assigning(Assignment(X, HALF)),
        "assignments[0].value: the variable 'x' of type int cannot take a value of type real. Convert it by floor",
    ),
    "a variable assigned twice": (
        assigning(Assignment(X, ONE), Assignment(Name("r"), ONE), Assignment(X, TWO)),
        "assignments[2].ref: 'x' is assigned twice at index 0. Give one of them another 'index'",
    ),
    "an unknown automaton": (
        model(system=Composition((Instance("B"),))),
        "elements[0].automaton: no automaton 'B'",
    ),
    "an empty system": (model(system=Composition(())), "elements: nothing takes part in the system"),
    "an unknown input-enabled action": (
        model(system=Composition((Instance("A", ("gone",)),))),
        "elements[0].input-enable[0]: no action 'gone'. Did you mean 'go'?",
    ),
    "a vector of the wrong length": (
        model(system=Composition((Instance("A"),), (Synchronisation(("go", None)),))),
        "synchronise: the vector has 2 entries for 1 elements of the system. Write one action or null",
    ),
    "an unknown action in a vector": (
        model(system=Composition((Instance("A"),), (Synchronisation(("goo",)),))),
        "synchronise[0]: no action 'goo'. Did you mean 'go'?",
    ),
    "an unknown result": (
        model(system=Composition((Instance("A"),), (Synchronisation(("go",), "gone"),))),
        "result: no action 'gone'. Did you mean 'go'?",
    ),
    "an empty vector": (
        model(system=Composition((Instance("A"),), (Synchronisation((None,), "go"),))),
        "nobody takes part in the synchronisation",
    ),
    "a property over nothing": (
        model(properties=(Property("p", Binary("<", Name("z"), ONE)),)),
        "no variable or constant 'z' here",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model_is_refused(name):
    broken, message = BROKEN[name]
    with pytest.raises(InputError) as caught:
        check_model(broken)
    assert message in str(caught.value)
    assert caught.value.hint


def array_model(*assignments: Assignment) -> Model:
    edge = Edge("l", None, None, (Destination("l", None, assignments),))
    return model(edge=edge, variables=(VariableDeclaration("a", ArrayType(INT), ArrayLiteral((ONE, TWO))),))


def test_elements_of_one_array_may_be_assigned_together_but_not_one_of_them_twice():
    first, second = Element(A, IntLiteral(0)), Element(A, ONE)
    check_model(array_model(Assignment(first, ONE), Assignment(second, ONE)))
    check_model(array_model(Assignment(first, ONE), Assignment(first, ONE, 1)))
    check_model(array_model(Assignment(A, ArrayLiteral((ONE, TWO))), Assignment(first, ONE, 1)))
    for pair in (
        (Assignment(first, ONE), Assignment(first, TWO)),
        (Assignment(first, ONE), Assignment(A, A)),
        (Assignment(A, A), Assignment(first, ONE)),
    ):
        with pytest.raises(InputError, match=r"assignments\[1\].ref: 'a' is assigned twice at index 0"):
            check_model(array_model(*pair))


def test_constants_may_stand_in_any_order_and_use_functions_of_constants():
    check_model(
        model(
            constants=(Constant("M", INT, Call("twice", (N,))), Constant("N", INT, ONE)),
            functions=(function("twice", Binary("*", TWO, Name("k")), "k"),),
        )
    )


def test_a_constant_quotient_may_be_an_integer():
    half = Binary("/", N, TWO)
    check_model(variable(IntType(ONE, half), half))
    check_model(model(constants=(Constant("N", INT), Constant("M", INT, half))))


def test_a_computed_real_may_be_assigned_to_an_integer_as_published_models_do():
    check_model(assigning(Assignment(X, Binary("/", X, TWO))))


def test_two_automata_may_have_a_variable_of_one_name_and_a_property_names_it_by_its_automaton():
    def automaton(name):
        return Automaton(name, (Location("l"),), ("l",), (), (VariableDeclaration("y", BOOL),))

    def two(expression):
        return model(
            automata=(automaton("A"), automaton("B")),
            system=Composition((Instance("A"), Instance("B"))),
            properties=(Property("p", expression),),
        )

    check_model(two(Name("A.y")))
    with pytest.raises(InputError, match="no variable or constant 'y'"):
        check_model(two(Name("y")))


def test_a_place_with_a_line_is_reported_as_it_is():
    edge = Edge("l", None, X, (Destination("l"),), where=Where("m.prism", line=3, column=5))
    with pytest.raises(InputError, match=r"^m.prism:3:5: a condition is expected"):
        check_model(model(edge=edge))
