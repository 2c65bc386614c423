"""Integer transition systems of the Termination Problem Data Base, read: KoAT rules (`.koat`) and the SMT-LIB form (`.smt2`).

Limits   nonlinear guards are dropped, nonlinear updates are any value (`Transition.exact` tells); calls (Com_2 and more) become
         alternatives
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import MAX_DEPTH
from polvet.numbers import MAX_DIGITS
from polvet.policy.finite_memory.its import Linear, Transition, TransitionSystem
from polvet.policy.finite_memory.linear import CONSTANT, plus, substituted

AGAIN = "Write it as the KoAT or SMT-LIB transition systems that docs/termination.md describes."


class _Nonlinear(Exception):
    """A term that is not linear."""


def parse_its(text: str, where: Where) -> TransitionSystem:
    """Return the transition system of a KoAT or SMT-LIB text."""
    return _parse_smt(text, where) if "(declare-sort" in text else _parse_koat(text, where)


# ---------------------------------------------------------------------------------------------------- KoAT
_RULE = re.compile(r"(\w+)\(([^()]*)\)\s*->\s*Com_(\d+)\((.*)\)")
_CALL = re.compile(r"\s*(\w+)\s*\(")


def _parse_koat(text: str, where: Where) -> TransitionSystem:
    start = re.search(r"FUNCTIONSYMBOLS\s+(\w+)", text)
    declared = re.search(r"\(VAR([^)]*)\)", text)
    if start is None or declared is None:
        raise InputError("is no KoAT problem: STARTTERM or VAR is missing.", where, AGAIN)
    rules: list[tuple[str, list[str], list[tuple[str, list[str]]], str, Where]] = []
    begun = False
    for number, line in enumerate(text.splitlines(), start=1):
        place = Where(where.file, line=number)
        if "->" not in line:
            # SOUND: a rule that is written otherwise must not be passed over.
            if begun and line.strip() not in ("", ")"):
                raise InputError(f"'{line.strip()}' is no rule.", place, "Write f(A) -> Com_1(g(A - 1)) :|: A >= 1.")
            begun = begun or "(RULES" in line
            continue
        head, _, condition = line.strip().partition(":|:")
        match = _RULE.fullmatch(head.strip())
        if match is None:
            raise InputError(f"'{line.strip()}' is no rule.", place, "Write f(A) -> Com_1(g(A - 1)) :|: A >= 1.")
        source, parameters, count, calls = match.groups()
        names = [name.strip() for name in parameters.split(",") if name.strip()]
        if len(set(names)) < len(names) or not all(name.isidentifier() and name.isascii() for name in names):
            raise InputError(f"'{parameters}' are no names of parameters.", place, "Give each a name of its own.")
        called = _calls(calls, place)
        if len(called) != int(count):
            raise InputError(f"Com_{count} has {len(called)} calls.", place, AGAIN)
        rules.append((source, names, called, condition, place))
    arity: dict[str, int] = {}
    for source, names, called, _, place in rules:
        for symbol, size in [(source, len(names)), *((target, len(terms)) for target, terms in called)]:
            if arity.setdefault(symbol, size) != size:
                raise InputError(f"'{symbol}' has {size} arguments here, {arity[symbol]} elsewhere.", place, AGAIN)
    variables = max((names for _, names, _, _, _ in rules), key=len, default=[])
    transitions = [step for rule in rules for step in _koat_transitions(*rule, variables)]
    return TransitionSystem(Path(where.file).name, tuple(variables), start.group(1), tuple(transitions))


def _koat_transitions(
    source: str,
    names: list[str],
    called: list[tuple[str, list[str]]],
    condition: str,
    where: Where,
    variables: list[str],
) -> Iterator[Transition]:
    """Yield a rule's transitions; parameters mean places, whatever a rule calls them, and other names are free."""
    own: dict[str, Mapping[str, int]] = {name: {f"{name} (free)": 1} for name in variables}
    own |= {name: {variable: 1} for name, variable in zip(names, variables, strict=False)}
    guard, exact = _koat_guard(condition, where)
    constraints = tuple(substituted(row, own) for row in guard)
    for target, arguments in called:
        update: dict[str, Mapping[str, int] | None] = dict.fromkeys(variables)
        terms = [_koat_term(argument, where) for argument in arguments]
        if len(terms) > len(variables):
            raise InputError(f"'{target}' has more arguments than any rule has parameters.", where, AGAIN)
        for name, term in zip(variables, terms, strict=False):
            update[name] = None if term is None else substituted(term, own)
        yield Transition(source, target, constraints, update, exact and None not in terms)


def _calls(text: str, where: Where) -> list[tuple[str, list[str]]]:
    """Return the function and the arguments of each call in `f(A, B), g(C)`; all of the text is calls."""
    calls: list[tuple[str, list[str]]] = []
    place = 0
    while text[place:].strip():
        head = _CALL.match(text, place)
        if head is None:
            raise InputError(f"'{text[place:].strip()}' is no call.", where, AGAIN)
        parts, begin, depth, place = [], head.end(), 1, head.end()
        while depth:
            if place == len(text):
                raise InputError(f"a bracket of '{head[1]}' is not closed.", where, AGAIN)
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            if depth == 0 or (depth == 1 and text[place] == ","):
                parts.append(text[begin:place])
                begin = place + 1
            place += 1
        calls.append((head[1], [part for part in parts if part.strip()]))
        rest = text[place:].lstrip()
        if rest and not rest.startswith(","):
            raise InputError(f"'{rest}' follows a call.", where, AGAIN)
        place = len(text) - len(rest[1:])
    return calls


def _koat_guard(text: str, where: Where) -> tuple[list[Linear], bool]:
    """Return the constraints that are linear, and whether all are."""
    guard: list[Linear] = []
    exact = True
    for part in filter(str.strip, text.split("&&")):
        sides = re.split(r"(>=|<=|==|=|>|<)", part)
        if len(sides) != 3:
            raise InputError(f"'{part.strip()}' is no comparison.", where, "Write A >= B + 1.")
        left, right = _koat_term(sides[0], where), _koat_term(sides[2], where)
        if left is None or right is None:
            exact = False
        else:
            guard += _compared(left, sides[1], right)
    return guard, exact


def _compared(left: Linear, operator: str, right: Linear) -> list[Linear]:
    difference = plus(left, right, -1)
    opposite = plus({}, difference, -1)
    match operator:
        case ">=":
            return [difference]
        case ">":
            return [plus(difference, {CONSTANT: -1})]
        case "<=":
            return [opposite]
        case "<":
            return [plus(opposite, {CONSTANT: -1})]
    return [difference, opposite]


def _koat_term(text: str, where: Where) -> Linear | None:
    """Return the linear term, or None if it is not linear."""
    try:
        return _from_ast(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # also where it is too long, or too deep
        raise InputError(f"'{text.strip()[:40]}' is no term.", where, AGAIN) from None
    except _Nonlinear:
        return None


def _from_ast(node: ast.AST) -> Linear:
    match node:
        case ast.Name(id=name):
            return {name: 1}
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return {CONSTANT: value} if value else {}
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return plus({}, _from_ast(inner), -1)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return plus(_from_ast(left), _from_ast(right))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return plus(_from_ast(left), _from_ast(right), -1)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _product(_from_ast(left), _from_ast(right))
    raise _Nonlinear


def _product(left: Linear, right: Linear) -> Linear:
    for first, second in ((left, right), (right, left)):
        if set(first) <= {CONSTANT}:
            return plus({}, second, first.get(CONSTANT, 0))
    raise _Nonlinear


# ---------------------------------------------------------------------------------------------------- SMT-LIB
def _parse_smt(text: str, where: Where) -> TransitionSystem:
    definitions = {}
    for form in _expressions(text, where):
        match form:
            case ["define-fun", str(name), parameters, "Bool", body]:
                definitions[name] = _declared(parameters, where), body
    if "next_main" not in definitions or "init_main" not in definitions:
        raise InputError("defines no init_main and next_main.", where, AGAIN)
    declared, begin = definitions["init_main"]
    parameters = [name for name, sort in declared if sort == "Int"]
    match _find(begin, "cfg_init"):
        case [_, str(), str(initial), "true"]:
            pass
        case _:
            raise InputError(
                "init_main restricts the first values, which is not read.", where, "Write (cfg_init pc l true)."
            )
    transitions: list[Transition] = []
    both, body = definitions["next_main"]
    after = {f"{name.removesuffix('^0')}^post": name for name in parameters}
    free = [name for name, sort in both if sort == "Int" and name not in parameters and name not in after]
    if free:
        raise InputError(
            f"next_main has the parameter '{free[0]}', which is neither before nor after a step.", where, AGAIN
        )
    for clause in body[1:] if body[:1] == ["or"] else [body]:
        match clause:
            case ["cfg_trans2", str(), str(source), str(), str(target), formula]:
                for guard in _disjuncts(_apart(formula, {}, count(), where), where):
                    step = _smt_transition(source, target, [row for row in guard if row is not None], after)
                    transitions.append(replace(step, exact=None not in guard))
            case _:
                raise InputError(f"'{_shown(clause)}' is not read: only cfg_trans2 is.", where, AGAIN)
    return TransitionSystem(Path(where.file).name, tuple(parameters), initial, tuple(transitions))


def _declared(form: Any, where: Where) -> list[tuple[str, str]]:
    """Return the names and sorts in `((x Int) (y Int))`."""
    names = []
    for one in form if isinstance(form, list) else [form]:
        match one:
            case [str(name), str(sort)]:
                names.append((name, sort))
            case _:
                raise InputError(f"'{_shown(one)}' declares no name.", where, AGAIN)
    return names


def _shown(form: Any) -> str:
    """Return the beginning of a form as it was written."""
    return form[:40] if isinstance(form, str) else f"({_shown(form[0])} ...)" if form else "()"


def _expressions(text: str, where: Where) -> list[Any]:
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"\(|\)|[^\s()]+", re.sub(r";[^\n]*", "", text)):
        if token == "(":
            stack.append([])
            if len(stack) > MAX_DEPTH:
                raise InputError(f"brackets nest deeper than {MAX_DEPTH}.", where, AGAIN)
        elif token == ")":
            if len(stack) == 1:
                raise InputError("a bracket is closed that was not opened.", where, AGAIN)
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise InputError("a bracket is not closed.", where, AGAIN)
    return stack[0]


def _find(form: Any, head: str) -> list[Any]:
    if isinstance(form, list):
        if form and form[0] == head:
            return form
        for part in form:
            if part_forms := _find(part, head):
                return part_forms
    return []


def _apart(form: Any, names: Mapping[str, str], numbers: Iterator[int], where: Where) -> Any:
    """Return the formula with a name of its own for everything that is said to exist: equal names may mean different values."""
    match form:
        case str():
            return names.get(form, form)
        case ["exists", declared, inner]:
            own = {name: f"{name} ({next(numbers)})" for name, _ in _declared(declared, where)}
            return ["exists", declared, _apart(inner, {**names, **own}, numbers, where)]
    return [_apart(part, names, numbers, where) for part in form]


def _disjuncts(form: Any, where: Where) -> list[list[Linear | None]]:
    """Return the formula as a disjunction of conjunctions of constraints; None: one that is not linear; what exists stays free."""
    match form:
        case "true":
            return [[]]
        case "false":
            return []
        case ["and", *conjuncts]:
            parts: list[list[Linear | None]] = [[]]
            for inner in conjuncts:
                parts = [first + second for first in parts for second in _disjuncts(inner, where)]
            return parts
        case ["or", *disjuncts]:
            return [part for inner in disjuncts for part in _disjuncts(inner, where)]
        case ["exists", _, inner]:
            return _disjuncts(inner, where)
        case ["<=" | "<" | ">=" | ">" | "=" as sign, left, right]:
            try:
                return [[*_compared(_from_smt(left, where), sign, _from_smt(right, where))]]
            except _Nonlinear:
                return [[None]]
    raise InputError(f"'{_shown(form)}' is not read in a formula.", where, AGAIN)


def _from_smt(form: Any, where: Where) -> Linear:
    match form:
        case str():
            if re.fullmatch(rf"-?\d{{1,{MAX_DIGITS}}}", form):
                return {CONSTANT: int(form)} if int(form) else {}
            if form[0] in "-0123456789":
                raise InputError(f"'{_shown(form)}' is not an integer of at most {MAX_DIGITS} digits.", where, AGAIN)
            return {form: 1}
        case ["+", first, *others]:
            return reduce(plus, (_from_smt(term, where) for term in others), _from_smt(first, where))
        case ["-", term]:
            return plus({}, _from_smt(term, where), -1)
        case ["-", first, *others]:
            return reduce(lambda sum, term: plus(sum, _from_smt(term, where), -1), others, _from_smt(first, where))
        case ["*", left, right]:
            return _product(_from_smt(left, where), _from_smt(right, where))
        case [str(), _, *_]:
            raise _Nonlinear
    raise InputError(f"'{_shown(form)}' is no term.", where, AGAIN)


def _smt_transition(source: str, target: str, constraints: list[Linear], after: Mapping[str, str]) -> Transition:
    """Solve the equations for the values after the step; what is not determined stays a free name."""
    update: dict[str, Mapping[str, int] | None] = {}
    guard = [dict(constraint) for constraint in constraints]
    for post, name in after.items():
        solution: Linear | None = None
        for first in guard:
            opposite = plus({}, first, -1)
            if abs(first.get(post, 0)) == 1 and opposite in guard:
                solution = plus({}, {k: v for k, v in first.items() if k != post}, -first[post])
                break
        if solution is not None:
            values = {post: solution}
            guard = [row for row in (substituted(row, values) for row in guard) if row]
            update = {key: substituted(value or {}, values) for key, value in update.items()}
            update[name] = solution
        else:
            update[name] = {post: 1}
    return Transition(source, target, tuple(guard), update)
