r"""The small infix language for conditions: text to `Expression` and back.

    x >= 3 && (y == 2 || !crashed)          car.location == "crashed" => speed[lane + 1] <= max(v, 2.5)

Precedence, loosest first; what stands in one line binds equally, brackets `( )` overrule:

    c ? a : b                     from the right
    =>                            from the right
    ||   also | and ∨             from the left
    &&   also & and ∧             from the left
    !    also ¬                   looser than comparisons: `!x == 2` is `!(x == 2)`
    ==   also =;  !=  ≠  <  <=  ≤  >  >=  ≥       never chained: `1 < x < 3` is refused
    +  -                          from the left
    *  /  %                       from the left; `/` is the exact quotient, `%` the remainder (JANI's)
    -x                            `-3` is a literal, `-x` is `0 - x`
    a[i]  f(x, y)                 array element, function

Leaves
    true, false, 12, 0.25, 1e-3   decimals are read exactly
    name, automaton.name          dots belong to the name; `car.location` is an automaton's location
    'odd name!'                   single quotes: any name at all; `\'` and `\\` inside
    "crashed"                     double quotes: the name of a *location* (PRISM: of a label), not of a variable. It
                                  becomes `Name('"crashed"')`, quotes kept; who instantiates the model resolves it
                                  against the locations of the automaton on the other side of `==`. `quoted` and
                                  `unquoted` convert.
    [a, b, c]                     an array; `array(i, n, e)` has the n elements e for i = 0, 1, ...
    pi(), e(), real(1/3)          π, e, and a real number that no decimal hits

Functions: min max (two or more arguments), pow log, floor ceil trc abs sgn exp, the trigonometric ones, mod. Any other
name before a bracket is a function of the model. A quoted name is never built in: `'min'(x)` calls the model's `min`.

Limits   MAX_LENGTH characters, MAX_DEPTH nested brackets, MAX_CHAIN operands of one arithmetic chain. Chains of && and
         || of any length are read; those longer than MAX_CHAIN become balanced trees, so that no recursion suffers.
Differs  `Select`, which only instantiation makes, is written as an access to an array literal and does not read back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, NoReturn

from polvet.errors import InputError, Where
from polvet.model.expressions import (
    FALSE,
    TRUE,
    UNARY,
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
    Select,
    Unary,
)
from polvet.numbers import MAX_DIGITS, exact

MAX_LENGTH = 1_000_000
MAX_DEPTH = 100
MAX_CHAIN = 100

# (precedence, JANI's sign) of every spelling of a binary operator.
CONDITION, IMPLIES, OR, AND, NOT, COMPARE, SUM, PRODUCT, MINUS, LEAF = range(1, 11)
BINARY_SIGNS: dict[str, tuple[int, str]] = {
    "=>": (IMPLIES, "⇒"), "⇒": (IMPLIES, "⇒"),
    "||": (OR, "∨"), "|": (OR, "∨"), "∨": (OR, "∨"),
    "&&": (AND, "∧"), "&": (AND, "∧"), "∧": (AND, "∧"),
    "==": (COMPARE, "="), "=": (COMPARE, "="), "!=": (COMPARE, "≠"), "≠": (COMPARE, "≠"),
    "<": (COMPARE, "<"), "<=": (COMPARE, "≤"), "≤": (COMPARE, "≤"),
    ">": (COMPARE, ">"), ">=": (COMPARE, "≥"), "≥": (COMPARE, "≥"),
    "+": (SUM, "+"), "-": (SUM, "-"),
    "*": (PRODUCT, "*"), "/": (PRODUCT, "/"), "%": (PRODUCT, "%"),
}  # fmt: skip
SPELLING = {
    "⇒": "=>", "∨": "||", "∧": "&&", "=": "==", "≠": "!=", "<": "<", "≤": "<=", ">": ">", "≥": ">=",
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%",
}  # fmt: skip
PRECEDENCE = {sign: precedence for precedence, sign in BINARY_SIGNS.values()}
UNARY_FUNCTIONS = frozenset(UNARY) - {"¬"}
BINARY_FUNCTIONS = {"min": "min", "max": "max", "pow": "pow", "log": "log", "mod": "%"}
BUILT_IN = frozenset({*UNARY_FUNCTIONS, *BINARY_FUNCTIONS, "array", "real", "pi", "e"})
SIGN_HINTS = {
    ";": "Join conditions with &&.",
    "^": "Write pow(x, y) for a power.",
    ".": "A point needs a digit after it: 5.0.",
}
WORDS = {"and": "&&", "or": "||", "not": "!", "implies": "=>"}

TOKEN = re.compile(
    r"""\s+
      | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>(?:[^\W\d]\w*)(?:\.[^\W\d]\w*)*)
      | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign>=>|\|\||&&|==|!=|<=|>=|[-+*/%<>=!&|?:,()\[\]⇒∨∧¬≠≤≥])""",
    re.VERBOSE | re.DOTALL,
)
PLAIN_NAME = re.compile(r"(?:[^\W\d]\w*)(?:\.[^\W\d]\w*)*")


class Token(NamedTuple):
    """A word of the text: its kind (`number`, `name`, `quoted`, `sign`, `end`), its text, where it starts."""

    kind: str
    text: str
    offset: int


def quoted(name: str) -> str:
    """Return the name that stands for the location (or label) `name` in an expression: the name in double quotes."""
    return f'"{name}"'


def unquoted(name: str) -> str | None:
    """Return the location (or label) that a quoted name stands for, or None for an ordinary name.

    >>> unquoted('"crashed"'), unquoted('crashed')
    ('crashed', None)
    """
    return name[1:-1] if len(name) >= 2 and name[0] == name[-1] == '"' else None


def exact_number(digits: str) -> IntLiteral | RealLiteral | None:
    """Return the number that the digits spell, exactly; None beyond MAX_DIGITS digits or the range of doubles.

    >>> exact_number("12"), exact_number("2.50"), exact_number("1e1000000")
    (IntLiteral(value=12), RealLiteral(value=Fraction(5, 2)), None)
    """
    if digits.isdecimal() and len(digits) <= MAX_DIGITS:
        return IntLiteral(int(digits))  # a quotient of two may be a double although neither of them is
    value = exact(digits)
    return RealLiteral(value) if isinstance(value, Fraction) else None


def parse_expression(text: str, where: Where = Where("expression")) -> Expression:
    """Return the expression that the text spells; `where` names its origin in messages.

    >>> parse_expression("x >= 3 && !crashed")
    Binary(operator='∧', left=Binary(operator='≥', left=Name(name='x'), right=IntLiteral(value=3)), \
right=Unary(operator='¬', operand=Name(name='crashed')))
    """
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"the expression has {len(text)} characters; at most {MAX_LENGTH} are read.",
            where,
            "Split it, or put it into the model as a property.",
        )
    return _Parser(text, where).whole()


class _Parser:
    """Precedence climbing over the tokens of one text."""

    def __init__(self, text: str, where: Where) -> None:
        self.text, self.where = text, where
        self.tokens = self._tokens()
        self.position, self.depth = 0, 0

    def _tokens(self) -> list[Token]:
        tokens, offset = [], 0
        while offset < len(self.text):
            match = TOKEN.match(self.text, offset)
            if match is None:
                char = self.text[offset]
                if char in "'\"":
                    self._refuse(offset, f"the quote {char} is never closed.", "Close it.")
                hint = SIGN_HINTS.get(char, "Remove it, or quote the name.")
                self._refuse(offset, f"'{_shown(char)}' means nothing here.", hint)
            if match.lastgroup is not None:
                tokens.append(Token(match.lastgroup, match.group(), offset))
            offset = match.end()
        return [*tokens, Token("end", "", len(self.text))]

    def _refuse(self, offset: int, what: str, hint: str | None) -> NoReturn:
        before = self.text[:offset]
        line, column = before.count("\n") + 1, offset - before.rfind("\n")
        where = self.where
        if where.line is not None:
            shift = (where.column or 1) - 1 if line == 1 else 0
            where = replace(where, line=where.line + line - 1, column=column + shift)
        elif where.path:
            # The line of the text is not the line of the file: say it in words.
            what = f"column {column}{f' of line {line}' if line > 1 else ''}: {what}"
        else:
            where = replace(where, line=line, column=column)
        raise InputError(what, where, hint)

    def _unexpected(self, token: Token, wanted: str, hint: str | None = None) -> NoReturn:
        stands = "the text ends" if token.kind == "end" else f"'{_shown(token.text)}' stands"
        self._refuse(token.offset, f"{stands} where {wanted} should be.", hint or "Complete the expression there.")

    def _peek(self) -> Token:
        return self.tokens[self.position]

    def _next(self) -> Token:
        token = self.tokens[self.position]
        self.position += token.kind != "end"
        return token

    def _at(self, sign: str) -> bool:
        token = self.tokens[self.position]
        return token.kind == "sign" and token.text == sign

    def _take(self, sign: str, after: str) -> None:
        token = self._next()
        if token.kind != "sign" or token.text != sign:
            self._unexpected(token, f"'{sign}' {after}", self._word_hint(token))

    def _word_hint(self, token: Token) -> str | None:
        return f"Write {WORDS[token.text]} for '{token.text}'." if token.text in WORDS else None

    def whole(self) -> Expression:
        """Return the expression that the whole text is."""
        result = self.expression(CONDITION)
        token = self._peek()
        if token.kind != "end":
            self._unexpected(token, "the end or an operator", self._word_hint(token) or "Join two conditions with &&.")
        return result

    def expression(self, loosest: int) -> Expression:
        """Return the longest expression whose operators bind at least as tightly as `loosest`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse(self._peek().offset, f"the expression nests deeper than {MAX_DEPTH}.", "Split it up.")
        left = self._prefix(loosest)
        chain, chained = 0, -1
        while (token := self._peek()).kind == "sign":
            if token.text == "?" and loosest <= CONDITION:
                self._next()
                then = self.expression(CONDITION)
                self._take(":", "of the condition '?'")
                left = Conditional(left, then, self.expression(CONDITION))
                continue
            precedence, sign = BINARY_SIGNS.get(token.text, (0, ""))
            if precedence < loosest or not sign:
                break
            if precedence in (OR, AND):
                left = self._associative(left, precedence, sign)
                continue
            self._next()
            right = self.expression(precedence if precedence == IMPLIES else precedence + 1)
            left = Binary(sign, left, right)
            after = self._peek()
            if precedence == COMPARE and BINARY_SIGNS.get(after.text, (0, ""))[0] == COMPARE:
                hint = "Write each comparison by itself: 1 < x && x < 3."
                self._refuse(after.offset, f"the comparisons '{token.text}' and '{after.text}' are chained.", hint)
            chain, chained = (chain + 1 if precedence == chained else 1), precedence
            if chain > MAX_CHAIN:
                self._refuse(token.offset, f"over {MAX_CHAIN} operands stand in a row.", "Group them with brackets.")
        self.depth -= 1
        return left

    def _associative(self, left: Expression, precedence: int, sign: str) -> Expression:
        operands = [left]
        while BINARY_SIGNS.get(self._peek().text, (0, ""))[0] == precedence and self._peek().kind == "sign":
            self._next()
            operands.append(self.expression(precedence + 1))
        return chained_operands(sign, operands)

    def _prefix(self, loosest: int) -> Expression:
        token = self._next()
        if token.kind == "sign":
            if token.text in "!¬":
                return Unary("¬", self.expression(max(NOT, loosest)))
            if token.text == "-":
                return negative(self.expression(MINUS))
            if token.text == "(":
                inner = self.expression(CONDITION)
                self._take(")", "for the bracket '('")
                return self._postfix(inner)
            if token.text == "[":
                return self._postfix(ArrayLiteral(self._list("]")))
            self._unexpected(token, "a value", "Remove the operator, or give it an operand.")
        return self._postfix(self._leaf(token))

    def _leaf(self, token: Token) -> Expression:
        if token.kind == "number":
            number = exact_number(token.text)
            if number is None:
                what = f"the number {_shown(token.text)} is too large or has over {MAX_DIGITS} digits."
                self._refuse(token.offset, what, "Shorten it.")
            return number
        if token.kind == "quoted":
            name = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
            if not name:
                self._refuse(token.offset, "the quotes hold no name.", "Write the name between them.")
            if token.text[0] == '"':
                return Name(quoted(name))
            return Call(name, self._arguments()) if self._at("(") else Name(name)
        if token.kind == "name":
            if token.text in ("true", "false"):
                return TRUE if token.text == "true" else FALSE
            if self._at("("):
                return self._function(token)
            if token.text == "not":
                self._refuse(token.offset, "'not' is no operator here.", "Write ! for 'not'.")
            return Name(token.text)
        self._unexpected(token, "a value")

    def _postfix(self, expression: Expression) -> Expression:
        count = 0
        while self._at("["):
            self._next()
            index = self.expression(CONDITION)
            self._take("]", "for the bracket '['")
            expression = Element(expression, index)
            count += 1
            if count > MAX_DEPTH:
                self._refuse(self._peek().offset, f"the expression nests deeper than {MAX_DEPTH}.", "Split it up.")
        return expression

    def _arguments(self) -> tuple[Expression, ...]:
        self._take("(", "after the function")
        return self._list(")")

    def _list(self, closing: str) -> tuple[Expression, ...]:
        items: list[Expression] = []
        while not self._at(closing):
            if items:
                self._take(",", f"or '{closing}'")
            items.append(self.expression(CONDITION))
        self._next()
        return tuple(items)

    def _function(self, token: Token) -> Expression:
        name, arguments = token.text, self._arguments()
        if name not in BUILT_IN:
            return Call(name, arguments)
        try:
            return built_in(name, arguments)
        except ValueError as error:
            self._refuse(token.offset, f"{error}", "Give it what it takes.")


def negative(operand: Expression) -> Expression:
    """Return `-operand`: a literal of a literal, else `0 - operand` (JANI has no unary minus)."""
    if isinstance(operand, IntLiteral | RealLiteral):
        return type(operand)(-operand.value)  # type: ignore[arg-type]
    return Binary("-", IntLiteral(0), operand)


def chained_operands(sign: str, operands: Sequence[Expression]) -> Expression:
    """Return the operands joined by an associative sign: from the left, or balanced beyond MAX_CHAIN; none of ∧ is true, of ∨ false."""
    if not operands:
        return {"∧": TRUE, "∨": FALSE}[sign]
    if len(operands) > MAX_CHAIN:
        middle = len(operands) // 2
        halves = chained_operands(sign, operands[:middle]), chained_operands(sign, operands[middle:])
        return Binary(sign, *halves)
    return reduce(lambda left, right: Binary(sign, left, right), operands)


def built_in(name: str, arguments: tuple[Expression, ...]) -> Expression:
    """Return a built-in function applied; a ValueError says what is wrong with the arguments."""
    match name, arguments:
        case "pi", ():
            return MathConstant("π")
        case "e", ():
            return MathConstant("e")
        case "real", (IntLiteral(value),):
            return RealLiteral(Fraction(value))
        case "real", (RealLiteral(),):
            return arguments[0]
        case "real", (Binary("/", IntLiteral(numerator), IntLiteral(denominator)),) if denominator:
            return RealLiteral(Fraction(numerator, denominator))
        case "array", (Name(variable), length, element) if unquoted(variable) is None:
            return ArrayBuild(variable, length, element)
        case (("min" | "max"), (_, _, *_)):
            return chained_operands(name, arguments)
        case _, (left, right) if name in BINARY_FUNCTIONS:
            return Binary(BINARY_FUNCTIONS[name], left, right)
        case _, (operand,) if name in UNARY_FUNCTIONS:
            return Unary(name, operand)
    takes = {
        "real": "one number or one fraction of integers",
        "array": "an index name, a length and an element",
        "pi": "no argument",
        "e": "no argument",
        "min": "two or more arguments",
        "max": "two or more arguments",
    }.get(name, "two arguments" if name in BINARY_FUNCTIONS else "one argument")
    raise ValueError(f"{name}() takes {takes}, not {len(arguments)}.")


def _shown(text: str) -> str:
    text = "".join(char if char.isprintable() else "\\" + format(ord(char), "x") for char in text)
    return text if len(text) <= 30 else text[:30] + "..."


def dump_expression(expression: Expression) -> str:
    """Return the text of an expression; reading it gives the same expression again.

    >>> dump_expression(parse_expression('!(a|b) & -x+1<=2*(y-1) => car.location = "crashed"'))
    '!(a || b) && 0 - x + 1 <= 2 * (y - 1) => car.location == "crashed"'
    """
    return _dumped(expression, CONDITION)


def _dumped(expression: Expression, tightest: int) -> str:
    text, precedence = _TEXT[type(expression)](expression)
    return text if precedence >= tightest else f"({text})"


def _binary_text(expression: Binary) -> tuple[str, int]:
    sign = expression.operator
    if sign not in SPELLING:
        return f"{sign}({_dumped(expression.left, CONDITION)}, {_dumped(expression.right, CONDITION)})", LEAF
    precedence = PRECEDENCE[sign]
    left = precedence if precedence not in (COMPARE, IMPLIES) else precedence + 1
    right = precedence if precedence == IMPLIES else precedence + 1
    return f"{_dumped(expression.left, left)} {SPELLING[sign]} {_dumped(expression.right, right)}", precedence


def _unary_text(expression: Unary) -> tuple[str, int]:
    if expression.operator == "¬":
        return "!" + _dumped(expression.operand, LEAF), NOT
    return f"{expression.operator}({_dumped(expression.operand, CONDITION)})", LEAF


def _conditional_text(expression: Conditional) -> tuple[str, int]:
    condition, then = _dumped(expression.condition, IMPLIES), _dumped(expression.then, CONDITION)
    return f"{condition} ? {then} : {_dumped(expression.otherwise, CONDITION)}", CONDITION


def decimal_places(value: Fraction) -> int | None:
    """Return how many digits the decimal has behind its point; None where no decimal hits the fraction."""
    places, rest = 0, value.denominator
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        places = max(places, power)
    return places if rest == 1 else None


def _real_text(value: Fraction) -> tuple[str, int]:
    shift = decimal_places(value)
    if shift is None or shift > MAX_DIGITS or abs(value.numerator) >= 10 ** (MAX_DIGITS // 2):
        return f"real({value.numerator}/{value.denominator})", LEAF
    digits = str(abs(value.numerator) * 10**shift // value.denominator).rjust(shift + 1, "0")
    split = len(digits) - shift
    text = f"{'-' if value < 0 else ''}{digits[:split]}.{digits[split:] or '0'}"
    if len(text) > 24 and abs(value) < 1:
        text = f"{'-' if value < 0 else ''}{digits.lstrip('0')}e-{shift}"
    return text, MINUS if value < 0 else LEAF


def _name_text(name: str, *, called: bool = False) -> str:
    location = None if called else unquoted(name)
    if location:
        return '"' + _escaped(location, '"') + '"'
    plain = PLAIN_NAME.fullmatch(name) and name not in ("true", "false", "not") and not (called and name in BUILT_IN)
    return name if plain else "'" + _escaped(name, "'") + "'"


def _escaped(name: str, quote: str) -> str:
    return name.replace("\\", "\\\\").replace(quote, "\\" + quote)


def _list_text(items: tuple[Expression, ...]) -> str:
    return ", ".join(_dumped(item, CONDITION) for item in items)


def _select_text(expression: Select) -> tuple[str, int]:
    indices = "".join(f"[{_dumped(index, CONDITION)}]" for index in expression.indices)
    return f"[{_list_text(expression.items)}]{indices}", LEAF


_TEXT: dict[type, Callable[..., tuple[str, int]]] = {
    BoolLiteral: lambda leaf: ("true" if leaf.value else "false", LEAF),
    IntLiteral: lambda leaf: (str(leaf.value), MINUS if leaf.value < 0 else LEAF),
    RealLiteral: lambda leaf: _real_text(leaf.value),
    MathConstant: lambda leaf: ("pi()" if leaf.name == "π" else "e()", LEAF),
    Name: lambda leaf: (_name_text(leaf.name), LEAF),
    Unary: _unary_text,
    Binary: _binary_text,
    Conditional: _conditional_text,
    Call: lambda call: (f"{_name_text(call.function, called=True)}({_list_text(call.arguments)})", LEAF),
    Element: lambda access: (f"{_dumped(access.array, LEAF)}[{_dumped(access.index, CONDITION)}]", LEAF),
    ArrayLiteral: lambda array: (f"[{_list_text(array.elements)}]", LEAF),
    ArrayBuild: lambda array: (
        f"array({_name_text(array.variable)}, {_dumped(array.length, CONDITION)}, {_dumped(array.element, CONDITION)})",
        LEAF,
    ),
    Select: _select_text,
}
