"""The infix language: what it reads, writes and refuses, judged by Python's own parser and by round trips."""

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.errors import InputError, Where
from polvet.model.evaluate import compile_expression
from polvet.model.expressions import (
    ArrayBuild,
    ArrayLiteral,
    Binary,
    BoolLiteral,
    Call,
    Conditional,
    Element,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Unary,
    conjunction,
    conjuncts,
    disjunction,
    disjuncts,
    literal,
)
from polvet.model.infix import MAX_CHAIN, MAX_DEPTH, MAX_LENGTH, dump_expression, parse_expression, unquoted

X, Y = Name("x"), Name("y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x >= 3 && (y == 2 || !crashed)",
         Binary("∧", Binary("≥", X, IntLiteral(3)),
                Binary("∨", Binary("=", Y, IntLiteral(2)), Unary("¬", Name("crashed"))))),
        ("x = 1 & y != 2 | true",
         Binary("∨", Binary("∧", Binary("=", X, IntLiteral(1)), Binary("≠", Y, IntLiteral(2))), BoolLiteral(True))),
        ("x ≤ 1 ∧ ¬y", Binary("∧", Binary("≤", X, IntLiteral(1)), Unary("¬", Y))),
        ("-3", IntLiteral(-3)),
        ("-x", Binary("-", IntLiteral(0), X)),
        ("2 - -3", Binary("-", IntLiteral(2), IntLiteral(-3))),
        ("0.1", RealLiteral(Fraction(1, 10))),
        ("1e-3", RealLiteral(Fraction(1, 1000))),
        (".5", RealLiteral(Fraction(1, 2))),
        ("a.b.c[x][y]", Element(Element(Name("a.b.c"), X), Y)),
        ('car.location == "crashed"', Binary("=", Name("car.location"), Name('"crashed"'))),
        ("'odd name!' + 'it\\'s'", Binary("+", Name("odd name!"), Name("it's"))),
        ("min(x, y, 1)", Binary("min", Binary("min", X, Y), IntLiteral(1))),
        ("mod(x, 2)", Binary("%", X, IntLiteral(2))),
        ("floor(x) + sinh(y)", Binary("+", Unary("floor", X), Unary("sinh", Y))),
        ("f(x, y)", Call("f", (X, Y))),
        ("'min'(x)", Call("min", (X,))),
        ("min + e", Binary("+", Name("min"), Name("e"))),
        ("pi() * e()", Binary("*", MathConstant("π"), MathConstant("e"))),
        ("real(1/3)", RealLiteral(Fraction(1, 3))),
        ("[1, x][0]", Element(ArrayLiteral((IntLiteral(1), X)), IntLiteral(0))),
        ("array(i, 3, i * 2)", ArrayBuild("i", IntLiteral(3), Binary("*", Name("i"), IntLiteral(2)))),
        ("x ? y : x ? 1 : 2", Conditional(X, Y, Conditional(X, IntLiteral(1), IntLiteral(2)))),
        ("x => y => x", Binary("⇒", X, Binary("⇒", Y, X))),
    ],
)  # fmt: skip
def test_a_text_means_this_expression(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


@pytest.mark.parametrize(
    ("text", "place", "what", "hint"),
    [
        ("", "expression:1:1", "the text ends where a value should be", "Complete"),
        ("x >=", "expression:1:5", "the text ends where a value should be", "Complete"),
        ("x >= 3 &&\n  y ==", "expression:2:7", "the text ends", "Complete"),
        ("1 < x < 3", "expression:1:7", "'<' and '<' are chained", "1 < x && x < 3"),
        ("x == y == 2", "expression:1:8", "are chained", "Write each comparison by itself"),
        ("(x + 1", "expression:1:7", "')' for the bracket '('", "Complete"),
        ("x + 1)", "expression:1:6", "')' stands where the end or an operator", "&&"),
        ("a[1", "expression:1:4", "']' for the bracket '['", "Complete"),
        ("x and y", "expression:1:3", "'and' stands", "Write && for 'and'."),
        ("not x", "expression:1:1", "'not' is no operator", "Write ! for 'not'."),
        ("x y", "expression:1:3", "'y' stands", "Join two conditions with &&."),
        ("x ; y", "expression:1:3", "';' means nothing", "Join conditions with &&."),
        ("x ^ 2", "expression:1:3", "'^' means nothing", "pow(x, y)"),
        ("5. + x", "expression:1:2", "'.' means nothing", "5.0"),
        ("'abc", "expression:1:1", "never closed", "Close it."),
        ('x == "abc', "expression:1:6", "never closed", "Close it."),
        ("''", "expression:1:1", "hold no name", "between them"),
        ("floor(x, y)", "expression:1:1", "floor() takes one argument, not 2", "Give it"),
        ("1 + min(x)", "expression:1:5", "min() takes two or more", "Give it"),
        ("array(1, 2, 3)", "expression:1:1", "array() takes an index name", "Give it"),
        ("real(1/0)", "expression:1:1", "real() takes", "Give it"),
        ("x ? y", "expression:1:6", "':' of the condition", "Complete"),
        ("* 3", "expression:1:1", "'*' stands where a value", "operand"),
        ("1e99999999", "expression:1:1", "over 400 digits", "Shorten"),
        ("9" * 401, "expression:1:1", "over 400 digits", "Shorten"),
        ("(" * 5000 + "x" + ")" * 5000, f"expression:1:{MAX_DEPTH + 1}", "nests deeper", "Split"),
        ("!" * 5000 + "x", f"expression:1:{MAX_DEPTH + 1}", "nests deeper", "Split"),
        ("-" * 5000 + "x", f"expression:1:{MAX_DEPTH + 1}", "nests deeper", "Split"),
        ("f(" * 5000, f"expression:1:{2 * MAX_DEPTH + 1}", "nests deeper", "Split"),
        ("a" + "[0]" * 5000, "expression:1:", "nests deeper", "Split"),
        ("x" + "+x" * 5000, "expression:1:", "operands stand in a row", "brackets"),
        ("x" + "=>x" * 5000, "expression:1:", "nests deeper", "Split"),
        ("x" + "?x:x" * 5000, "expression:1:", "nests deeper", "Split"),
    ],
)  # fmt: skip
def test_a_bad_text_is_refused_with_place_reason_and_next_step(text: str, place: str, what: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_expression(text)
    message = str(caught.value)
    assert message.startswith(place)
    assert what in message
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert "\n" not in message


def test_a_text_beyond_the_length_limit_is_refused() -> None:
    with pytest.raises(InputError, match="at most 1000000"):
        parse_expression("x" * (MAX_LENGTH + 1))


def test_the_place_of_a_text_inside_a_file_is_kept() -> None:
    with pytest.raises(InputError, match=r"^task\.toml: fail: column 5: the text ends"):
        parse_expression("x + ", Where("task.toml").at("fail"))
    with pytest.raises(InputError, match=r"^die\.props:7:24: the text ends"):
        parse_expression("x + ", Where("die.props", line=7, column=20))


def test_long_chains_of_conditions_are_read_as_shallow_trees() -> None:
    def depth(expression: Expression) -> int:
        return 1 + max(depth(expression.left), depth(expression.right)) if isinstance(expression, Binary) else 1

    tree = parse_expression(" || ".join(f"x{i}" for i in range(5000)))
    assert depth(tree) < MAX_CHAIN + 10
    assert parse_expression(dump_expression(tree)) == tree


def test_a_location_in_double_quotes_keeps_its_quotes() -> None:
    assert unquoted('"a b"') == "a b"
    assert unquoted("a") is None
    assert dump_expression(parse_expression('"a\\"b"')) == '"a\\"b"'


names = st.sampled_from(
    ["x", "y.z", "min", "e", "true", "not", "odd name", "it's", "back\\slash", '"loc"', "é", "1a", '"']
)
numbers = st.one_of(
    st.integers(-(10**30), 10**30).map(IntLiteral),
    st.fractions(max_denominator=10**6).map(RealLiteral),
    st.floats(allow_nan=False, allow_infinity=False).map(literal),
)
leaves = st.one_of(names.map(Name), numbers, st.booleans().map(BoolLiteral), st.sampled_from("πe").map(MathConstant))


def _grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    signs = ["∧", "∨", "⇒", "=", "≠", "<", "≤", ">", "≥", "+", "-", "*", "/", "%", "min", "max", "pow", "log"]
    several = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Binary, st.sampled_from(signs), inner, inner),
        st.builds(Unary, st.sampled_from(["¬", "floor", "abs", "asech"]), inner),
        st.builds(Conditional, inner, inner, inner),
        st.builds(Call, names.filter(lambda name: name != '"loc"'), several),
        st.builds(Element, inner, inner),
        st.builds(ArrayLiteral, several),
        st.builds(ArrayBuild, names.filter(lambda name: name != '"loc"'), inner, inner),
    )


@given(st.recursive(leaves, _grown, max_leaves=25))
@settings(max_examples=400, deadline=None)
def test_what_is_written_reads_back_as_the_same_expression(expression: Expression) -> None:
    assert parse_expression(dump_expression(expression)) == expression


def _value(expression: Expression, values: dict[str, int]) -> object:
    """Return the value by the obvious recursion."""
    match expression:
        case IntLiteral(value) | BoolLiteral(value):
            return value
        case Name(name):
            return values[name]
        case Unary("¬", operand):
            return not _value(operand, values)
        case Conditional(condition, then, otherwise):
            return _value(then if _value(condition, values) else otherwise, values)
        case Binary(sign, left, right):
            one, two = _value(left, values), _value(right, values)
            return {
                "∧": lambda: bool(one) and bool(two), "∨": lambda: bool(one) or bool(two),
                "=": lambda: one == two, "≠": lambda: one != two, "<": lambda: one < two, "≤": lambda: one <= two,
                ">": lambda: one > two, "≥": lambda: one >= two, "+": lambda: one + two, "-": lambda: one - two,
                "*": lambda: one * two,
            }[sign]()  # fmt: skip
    raise AssertionError(expression)


def _random_sum(rng: random.Random, python: bool = False) -> str:
    terms = ["*".join(rng.choice(["x", "y", "2", "-3", "-x", "(x-y)"]) for _ in range(rng.randint(1, 3)))
             for _ in range(rng.randint(1, 4))]  # fmt: skip
    text = terms[0]
    for term in terms[1:]:
        text += rng.choice("+-") + term
    return text


def _random_condition(rng: random.Random, depth: int = 2) -> str:
    parts = []
    for _ in range(rng.randint(1, 4)):
        atom = f"{_random_sum(rng)} {rng.choice(['==', '!=', '<', '<=', '>', '>='])} {_random_sum(rng)}"
        if depth and rng.random() < 0.3:
            atom = f"({_random_condition(rng, depth - 1)})"
        parts.append(rng.choice(["", "", "!", "! !"]) + atom)
    text = parts[0]
    for part in parts[1:]:
        text += rng.choice([" && ", " || "]) + part
    return text


@pytest.mark.parametrize("seed", range(300))
def test_precedence_and_association_are_those_of_pythons_own_parser(seed: int) -> None:
    # Python's `not`, `and`, `or` bind as ours do, so Python itself is the oracle.
    rng = random.Random(seed)
    text = _random_condition(rng)
    tree = parse_expression(text)
    python = text.replace("!=", "≠").replace("!", " not ").replace("≠", "!=").replace("&&", "and").replace("||", "or")
    for _ in range(10):
        values = {"x": rng.randint(-5, 5), "y": rng.randint(-5, 5)}
        assert bool(_value(tree, values)) == bool(eval(python, {}, values)), text


ALPHABET = [
    "x", "1", "2.5", "1e5", "(", ")", "[", "]", ",", "?", ":", "&&", "||", "!", "=>", "==", "<", "+", "-", "*", "/",
    "%", "min", "pow", "'", '"', "\\", ".", "é", "\n", "true", "real", "array", "\x00", "€", " ",
]  # fmt: skip


def _tried(text: str) -> Expression | InputError:
    try:
        return parse_expression(text)
    except InputError as error:
        return error


def test_random_texts_end_in_an_expression_or_an_input_error() -> None:
    rng = random.Random(1)
    read = 0
    for _ in range(4000):
        text = "".join(rng.choice(ALPHABET) + rng.choice(["", " "]) for _ in range(rng.randint(1, 14)))
        result = _tried(text)
        if isinstance(result, InputError):
            assert result.hint, text
            assert "\n" not in str(result), text
        else:
            read += 1
            assert parse_expression(dump_expression(result)) == result
    assert read > 20


@pytest.mark.parametrize(("join", "parts"), [(conjunction, conjuncts), (disjunction, disjuncts)])
def test_as_many_operands_as_a_table_has_rows_need_no_deep_recursion(join, parts):
    operands = [Binary("=", Name("x"), IntLiteral(k)) for k in range(20_000)]
    whole = join(*operands)
    assert list(parts(whole)) == operands  # in their order
    holds = compile_expression(whole, {"x": 0})
    assert [holds((x,)) for x in (0, 19_999, 20_000)] == ([True, True, False] if join is disjunction else [False] * 3)
