"""Expressions of the PRISM language, in models and in properties.

Precedence, loosest first (PRISM's own):

    c ? a : b           from the right
    =>                  from the left
    <=>                 from the left
    |                   &                from the left
    !                   looser than comparisons
    =  !=               from the left
    <  <=  >=  >        never chained
    +  -                from the left
    *  /                from the left; `/` is the exact quotient
    -x

Functions: min max floor ceil round pow mod log, also as `func(min, x, y)`. `round(x)` is `floor(x + 1/2)`.
Every name that an expression reads is noted in `uses` with its place, so that an unknown one can be refused there.

Limits   MAX_DEPTH nested brackets, MAX_CHAIN operands of one arithmetic chain; & and | chain without limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from polvet.errors import Where, did_you_mean
from polvet.model.expressions import FALSE, TRUE, Binary, Conditional, Expression, Name, RealLiteral, Unary
from polvet.model.infix import chained_operands, exact_number, negative
from polvet.model.properties import Comparison, PropertyExpression
from polvet.prism.lexer import Cursor, Token

MAX_DEPTH = 100
MAX_CHAIN = 150

CONDITION, IMPLIES, IFF, OR, AND, NOT, EQUALITY, ORDER, SUM, PRODUCT, MINUS = range(1, 12)
SIGNS: dict[str, tuple[int, str]] = {
    "=>": (IMPLIES, "⇒"),
    "<=>": (IFF, "="),
    "|": (OR, "∨"),
    "&": (AND, "∧"),
    "=": (EQUALITY, "="),
    "!=": (EQUALITY, "≠"),
    "<": (ORDER, "<"),
    "<=": (ORDER, "≤"),
    ">": (ORDER, ">"),
    ">=": (ORDER, "≥"),
    "+": (SUM, "+"),
    "-": (SUM, "-"),
    "*": (PRODUCT, "*"),
    "/": (PRODUCT, "/"),
}
FUNCTIONS = {
    "min": (2, None),
    "max": (2, None),
    "floor": (1, 1),
    "ceil": (1, 1),
    "round": (1, 1),
    "pow": (2, 2),
    "mod": (2, 2),
    "log": (2, 2),
}


class ExpressionParser(Cursor):
    """Reads expressions; the parsers of programs and of properties build on it."""

    functions: Mapping[str, tuple[int, int | None]] = FUNCTIONS

    def __init__(self, text: str, where: Where) -> None:
        super().__init__(text, where)
        self.depth = 0
        self.uses: list[tuple[str, Where]] = []

    def expression(self, loosest: int = CONDITION) -> Expression:
        """Return the expression that comes, refusing probabilities and the like inside it."""
        token = self.peek()
        result = self.formula(loosest)
        if not isinstance(result, Expression):
            self.refuse("a plain expression should stand here, not a property.", "Write numbers and variables.", token)
        return result

    def formula(self, loosest: int = CONDITION) -> PropertyExpression:
        """Return the longest formula whose operators bind at least as tightly as `loosest`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"the expression nests deeper than {MAX_DEPTH}.", "Split it up with formulas.")
        left = self._prefix(loosest)
        chain, chained = 0, 0
        while (token := self.peek()).kind == "sign":
            if token.text == "?" and loosest == CONDITION:
                left = self._conditional(left, token)
                continue
            precedence, sign = SIGNS.get(token.text, (0, ""))
            if precedence < loosest or not sign:
                break
            if precedence in (OR, AND):
                left = self._logical(left, precedence, sign, token.text)
                continue
            self.next()
            left = _joined(sign, left, self.formula(precedence + 1))
            after = self.peek()
            if precedence == ORDER and after.kind == "sign" and SIGNS.get(after.text, (0, ""))[0] == ORDER:
                what = f"the comparisons '{token.text}' and '{after.text}' are chained."
                self.refuse(what, "Write each by itself: 1<x & x<3.")
            chain, chained = (chain + 1 if precedence == chained else 1), precedence
            if chain > MAX_CHAIN:
                self.refuse(f"over {MAX_CHAIN} operands stand in a row.", "Group them with brackets.", token)
        self.depth -= 1
        return left

    def _conditional(self, condition: PropertyExpression, token: Token) -> Expression:
        if not isinstance(condition, Expression):
            self.refuse("a property cannot be the condition of '?'.", "Write a condition over variables.", token)
        self.next()
        then = self.expression()
        self.expect(":", "of the condition '?'", "A condition is written c ? a : b.")
        return Conditional(condition, then, self.expression())

    def _logical(self, left: PropertyExpression, precedence: int, sign: str, text: str) -> PropertyExpression:
        operands = [left]
        while self.at(text):
            self.next()
            operands.append(self.formula(precedence + 1))
        plain = [operand for operand in operands if isinstance(operand, Expression)]
        if len(plain) == len(operands):
            return chained_operands(sign, plain)
        if len(operands) > MAX_CHAIN:
            self.refuse(f"over {MAX_CHAIN} operands stand in a row.", "Group them with brackets.")
        result = operands[0]
        for operand in operands[1:]:
            result = _joined(sign, result, operand)
        return result

    def _prefix(self, loosest: int) -> PropertyExpression:
        token = self.peek()
        if token.kind == "sign":
            if token.text == "!":
                self.next()
                operand = self.formula(max(NOT, loosest))
                return Unary("¬", operand) if isinstance(operand, Expression) else Comparison("¬", operand)
            if token.text == "-":
                self.next()
                return negative(self.expression(MINUS))
            if token.text == "(":
                self.next()
                inner = self.formula()
                self.expect(")", "for the bracket '('", "Close the bracket.")
                return inner
        return self.leaf()

    def leaf(self) -> PropertyExpression:
        """Return a number, a truth value, a name or a function applied."""
        token = self.peek()
        if token.kind == "number":
            number = exact_number(token.text)
            if number is None:
                self.refuse(f"the number {token.shown()} is too large or too long.", "Shorten it to 400 digits.")
            self.next()
            return number
        if token.kind == "name":
            if token.text in ("true", "false"):
                self.next()
                return TRUE if token.text == "true" else FALSE
            if self.peek(1).text == "(" and self.peek(1).kind == "sign":
                return self._function()
            if token.text in RESERVED:
                self.unexpected("a value", f"'{token.text}' is a word of the language: use another name.")
            self.next()
            self.uses.append((token.text, self.place(token)))
            return Name(token.text)
        self.unexpected("a value", "Complete the expression there.")

    def _function(self) -> Expression:
        token = self.next()
        name = token.text
        self.next()
        if name == "func":
            token = self.next()
            name = token.text
            self.expect(",", "after the function's name", "The old form is func(min, x, y).")
        if name not in self.functions:
            hint = did_you_mean(name, self.functions) or f"The functions are {', '.join(sorted(self.functions))}."
            self.refuse(f"there is no function {token.shown()}.", hint, token)
        arguments = [self.expression()]
        while self.take(","):
            arguments.append(self.expression())
        self.expect(")", f"to close {name}()", "Close the bracket.")
        least, most = self.functions[name]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            takes = {1: "one argument", 2: "two arguments", None: "two or more arguments"}[most]
            self.refuse(f"{name}() takes {takes}, not {len(arguments)}.", "Correct the arguments.", token)
        return _applied(name, arguments)

    def identifier(self, what: str) -> Token:
        """Return the name that comes, refusing words of the language."""
        token = self.peek()
        if token.kind != "name":
            self.unexpected(what, "A name starts with a letter or _.")
        if token.text in RESERVED:
            self.refuse(f"{token.shown()} is a word of the language.", f"Use another name for {what}.")
        return self.next()

    def actions(self) -> tuple[str, ...]:
        """Return one or more names of actions with commas between them."""
        names = [self.identifier("the action").text]
        while self.take(","):
            names.append(self.identifier("the action").text)
        return tuple(names)


_WORDS = """
    bool clock const ctmc double dtmc endinit endinvariant endmodule endobservables endplayer endrewards endsystem
    false filter formula func global init int invariant label max mdp min module nondeterministic observable
    observables of player pomdp popta prob probabilistic pta rate rewards smg stochastic system true
"""
RESERVED = frozenset(_WORDS.split())


def _joined(sign: str, left: PropertyExpression, right: PropertyExpression) -> PropertyExpression:
    if isinstance(left, Expression) and isinstance(right, Expression):
        return Binary(sign, left, right)
    return Comparison(sign, left, right)


def _applied(name: str, arguments: list[Expression]) -> Expression:
    if name in ("min", "max"):
        return chained_operands(name, arguments)
    if name == "round":
        return Unary("floor", Binary("+", arguments[0], RealLiteral(Fraction(1, 2))))
    if len(arguments) == 1:
        return Unary(name, arguments[0])
    return Binary("%" if name == "mod" else name, arguments[0], arguments[1])
