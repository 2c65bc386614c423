"""Integer transition systems of the Termination Problem Data Base, read: KoAT rules (`.koat`) and the SMT-LIB form (`.smt2`).

Limits   nonlinear guards are dropped, nonlinear updates are any value (`Transition.exact` tells); calls (Com_2 and more) become
         alternatives
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
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
    except SyntaxError:
        raise InputError(f"'{text.strip()}' is no term.", where, AGAIN) from None
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
    forms = _expressions(text, where)
    definitions = {form[1]: form for form in forms if isinstance(form, list) and form and form[0] == "define-fun"}
    if "next_main" not in definitions or "init_main" not in definitions:
        raise InputError("defines no init_main and next_main.", where, AGAIN)
    parameters = [name for name, sort in definitions["init_main"][2] if sort == "Int"]
    begin = _find(definitions["init_main"][4], "cfg_init")
    if len(begin) != 4 or begin[3] != "true":
        raise InputError(
            "init_main restricts the first values, which is not read.", where, "Write (cfg_init pc l true)."
        )
    initial = begin[2]
    transitions: list[Transition] = []
    _, _, both, _, body = definitions["next_main"]
    after = {f"{name.removesuffix('^0')}^post": name for name in parameters}
    free = [name for name, sort in both if sort == "Int" and name not in parameters and name not in after]
    if free:
        raise InputError(
            f"next_main has the parameter '{free[0]}', which is neither before nor after a step.", where, AGAIN
        )
    for clause in body[1:] if body[0] == "or" else [body]:
        if clause[0] != "cfg_trans2":
            raise InputError(f"'{clause[0]}' is not read: only cfg_trans2 is.", where, AGAIN)
        for guard in _disjuncts(_apart(clause[5], {}, count()), where):
            step = _smt_transition(clause[2], clause[4], [row for row in guard if row is not None], after)
            transitions.append(replace(step, exact=None not in guard))
    return TransitionSystem(Path(where.file).name, tuple(parameters), initial, tuple(transitions))


def _expressions(text: str, where: Where) -> list[Any]:
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"\(|\)|[^\s()]+", re.sub(r";[^\n]*", "", text)):
        if token == "(":
            stack.append([])
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


def _apart(form: Any, names: Mapping[str, str], numbers: Iterator[int]) -> Any:
    """Return the formula with a name of its own for everything that is said to exist: equal names may mean different values."""
    if isinstance(form, str):
        return names.get(form, form)
    if form and form[0] == "exists":
        names = {**names, **{name: f"{name} ({next(numbers)})" for name, _ in form[1]}}
        return ["exists", form[1], _apart(form[2], names, numbers)]
    return [_apart(part, names, numbers) for part in form]


def _disjuncts(form: Any, where: Where) -> list[list[Linear | None]]:
    """Return the formula as a disjunction of conjunctions of constraints; None: one that is not linear; what exists stays free."""
    if form == "true":
        return [[]]
    if form == "false":
        return []
    match form[0]:
        case "and":
            parts: list[list[Linear | None]] = [[]]
            for inner in form[1:]:
                parts = [first + second for first in parts for second in _disjuncts(inner, where)]
            return parts
        case "or":
            return [part for inner in form[1:] for part in _disjuncts(inner, where)]
        case "exists":
            return _disjuncts(form[2], where)
        case "<=" | "<" | ">=" | ">" | "=" if len(form) == 3:
            try:
                return [[*_compared(_from_smt(form[1]), "==" if form[0] == "=" else form[0], _from_smt(form[2]))]]
            except _Nonlinear:
                return [[None]]
    raise InputError(f"'{form[0]}' is not read in a formula.", where, AGAIN)


def _from_smt(form: Any) -> Linear:
    if isinstance(form, str):
        if re.fullmatch(r"-?\d+", form):
            return {CONSTANT: int(form)} if int(form) else {}
        return {form: 1}
    terms = [_from_smt(part) for part in form[1:]]
    match form[0]:
        case "+":
            total: Linear = {}
            for term in terms:
                total = plus(total, term)
            return total
        case "-":
            total = plus({}, terms[0]) if len(terms) > 1 else plus({}, terms[0], -1)
            for term in terms[1:]:
                total = plus(total, term, -1)
            return total
        case "*" if len(terms) == 2:
            return _product(*terms)
    raise _Nonlinear


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
