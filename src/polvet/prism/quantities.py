"""Quantities, path formulas, labels and filters of PRISM's property language: what stands inside one property.

The words of the model come from a `Vocabulary`, those of the property file itself from `Local`. Formulas are replaced at
once; their sizes are counted, so that a text cannot grow beyond MAX_NODES nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NoReturn

from polvet.errors import Where, did_you_mean
from polvet.model.automata import Constant, ModelType
from polvet.model.expressions import TRUE, Expression, IntLiteral, Name
from polvet.model.properties import (
    Comparison,
    ExpectedReward,
    Filter,
    Globally,
    Interval,
    Next,
    Optimum,
    PathFormula,
    PathQuantifier,
    Probability,
    PropertyExpression,
    RewardBound,
    StateFormula,
    StatePredicate,
    SteadyState,
    Until,
)
from polvet.prism.expressions import FUNCTIONS, SUM, ExpressionParser
from polvet.prism.formulas import MAX_NODES, measure
from polvet.prism.lexer import Token
from polvet.prism.parse import quoted_name
from polvet.prism.translate import Reward, Vocabulary

PREDICATES = {"init": "initial", "deadlock": "deadlock"}
COMPARISONS = {"<": "<", "<=": "≤", ">": ">", ">=": "≥"}
FILTERS = {
    "min": "min",
    "max": "max",
    "sum": "sum",
    "+": "sum",
    "avg": "avg",
    "count": "count",
    "argmin": "argmin",
    "argmax": "argmax",
    "forall": "∀",
    "&": "∀",
    "exists": "∃",
    "|": "∃",
    "state": "values",
    "first": "values",
    "range": "values",
    "print": "values",
    "printall": "values",
    "values": "values",
}
HEADS = {
    head + suffix: (head, optimum)
    for head in ("P", "R", "S", "LRA")
    for suffix, optimum in (("", None), ("min", Optimum.MIN), ("max", Optimum.MAX))
}
REFUSED = {
    "multi": "multi-objective properties are not read.",
    "T": "time rewards are not read.",
    "Tmin": "time rewards are not read.",
    "Tmax": "time rewards are not read.",
}
TEMPORAL = ("F", "G", "X")


@dataclass(slots=True)
class Local:
    """What the property file itself has defined so far."""

    constants: list[Constant] = field(default_factory=list)
    labels: dict[str, Expression] = field(default_factory=dict)
    formulas: dict[str, Expression] = field(default_factory=dict)
    properties: dict[str, PropertyExpression] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


def _single(words: list[Token]) -> list[Token]:
    """Return the words with `==`, `&&` and `||` as PRISM writes them: with one sign."""
    joined: list[Token] = []
    for word in words:
        last = joined[-1] if joined else None
        if word.text in ("=", "&") and last == word._replace(column=word.column - 1):
            continue
        joined.append(word._replace(text="|") if word.kind == "sign" and word.text == "||" else word)
    return joined


class QuantityParser(ExpressionParser):
    """Reads formulas over the words of a model; `formula()` returns one.

    Conditions may also be written as elsewhere in polvet: `x == 1 && abs(y) < 2 || z`.
    """

    functions = MappingProxyType({**FUNCTIONS, "abs": (1, 1), "sgn": (1, 1)})

    def __init__(self, text: str, vocabulary: Vocabulary, where: Where) -> None:
        super().__init__(text, where)
        self.tokens = _single(self.tokens)
        self.vocabulary = vocabulary
        self.local = Local()
        self.nodes = 0
        self.known = set(vocabulary.names) | set(vocabulary.formulas)

    def leaf(self) -> PropertyExpression:
        """Return a quantity, a label, a filter, or a leaf of a plain expression."""
        token = self.peek()
        if token.kind == "quoted":
            return self._label()
        if token.kind == "name" and token.text not in self.known:
            if token.text in HEADS:
                return self._quantity()
            if token.text in ("E", "A") and self.peek(1).text == "[":
                self.next()
                return PathQuantifier("∃" if token.text == "E" else "∀", self._bracketed_path())
            if token.text == "filter":
                return self._filter()
            if token.text in REFUSED and self.peek(1).kind == "sign":
                self.refuse(REFUSED[token.text], "Ask for P, R or S.")
            if token.text in TEMPORAL:
                self._refuse_nested(token)
        if token.text == "<" and self.peek(1).text == "<":
            self.refuse("properties of games are not read.", "Only mdp and dtmc are read.")
        result = super().leaf()
        if isinstance(result, Name):
            formula = self.local.formulas.get(result.name, self.vocabulary.formulas.get(result.name))
            if formula is not None:
                return self._counted(formula)
        return result

    def _counted(self, expression: Expression) -> Expression:
        self._spend(measure(expression)[0])
        return expression

    def _spend(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            self.refuse(f"with formulas replaced the text has over {MAX_NODES} nodes.", "Use fewer formulas.")

    def _label(self) -> PropertyExpression:
        token = self.peek()
        name = quoted_name(self)
        if name in self.local.labels:
            return self._counted(self.local.labels[name])
        if name in self.vocabulary.labels:
            return Name(self.vocabulary.labels[name])
        if name in PREDICATES:
            return StatePredicate(PREDICATES[name])
        if name in self.local.properties:
            self._spend(self.local.sizes[name])
            return self.local.properties[name]
        known = [*self.vocabulary.labels, *self.local.labels, *PREDICATES, *self.local.properties]
        labels = ", ".join(f'"{label}"' for label in known[:8])
        self.refuse(f'no label "{name}" in the model.', did_you_mean(name, known) or f"The labels are {labels}.", token)

    def _filter(self) -> PropertyExpression:
        self.next()
        self.expect("(", "after filter", 'A filter is written filter(max, P=? [ F "a" ], "init").')
        token = self.next()
        if token.text not in FILTERS:
            hint = did_you_mean(token.text, FILTERS) or f"The filters are {', '.join(FILTERS)}."
            self.refuse(f"there is no filter {token.shown()}.", hint, token)
        self.expect(",", "after the filter's kind")
        values = self.formula()
        states = self._state() if self.take(",") else TRUE
        self.expect(")", "to close the filter", "Close the bracket.")
        return Filter(FILTERS[token.text], values, states)

    def _quantity(self) -> PropertyExpression:
        token = self.next()
        head, optimum = HEADS[token.text]
        reward = self._reward() if head == "R" else None
        if optimum is None and self.at("min", "max"):
            optimum = Optimum.MIN if self.next().text == "min" else Optimum.MAX
        if reward is None and head == "R" and self.at("{"):
            reward = self._reward()
        sign, bound = self._bound(token)
        self.depth += 1  # a quantity inside a quantity costs twice the stack of a bracket
        chosen = optimum or self._implied(sign, token)
        quantity: PropertyExpression
        if head == "P":
            quantity = Probability(chosen, self._bracketed_path())
        elif head == "R":
            quantity = self._expected(chosen, reward or self._first_reward(token))
        else:
            self.expect("[", f"after {token.text}")
            quantity = SteadyState(chosen, self._state())
            self._close()
        self.depth -= 1
        return quantity if bound is None else Comparison(sign, quantity, bound)

    def _bound(self, token: Token) -> tuple[str, Expression | None]:
        if self.at("="):
            self.next()
            self.expect("?", f"after {token.text}=", f"Ask for the value with {token.text}=?.")
            return "=", None
        if not self.at(*COMPARISONS):
            self.unexpected(f"a bound after {token.text}", f"Write {token.text}=? or {token.text}>=0.5.")
        sign = COMPARISONS[self.next().text]
        return sign, self.expression(SUM)

    def _implied(self, sign: str, token: Token) -> Optimum:
        if self.vocabulary.type is ModelType.DTMC:
            return Optimum.ONLY
        if sign == "=":
            text = token.text
            self.refuse(f"{text}=? has no single value on an mdp.", f"Ask for {text}min=? or {text}max=?.", token)
        # All schedulers must meet the bound: the worst of them decides.
        return Optimum.MIN if sign in ("≥", ">") else Optimum.MAX

    def _reward(self) -> Reward | None:
        if not self.take("{"):
            return None
        token = self.peek()
        rewards = self.vocabulary.rewards
        named = [name for name in rewards if name is not None]
        if token.kind == "quoted":
            name = quoted_name(self)
            if name not in rewards:
                hint = did_you_mean(name, named) or f"The rewards are {', '.join(named) or 'none'}."
                self.refuse(f'no rewards "{name}" in the model.', hint, token)
            reward = rewards[name]
        else:
            number = self.expression()
            unique = list(dict.fromkeys(rewards.values()))
            if not isinstance(number, IntLiteral) or not 1 <= number.value <= len(unique):
                self.refuse("no such reward structure.", f"Number it from 1 to {len(unique)}, or name it.", token)
            reward = unique[number.value - 1]
        self.expect("}", "after the rewards' name", "Close the brace.")
        return reward

    def _first_reward(self, token: Token) -> Reward:
        first = self.vocabulary.rewards.get(None)
        if first is None:
            self.refuse("the model has no rewards.", "Add rewards ... endrewards to the model.", token)
        return first

    def _expected(self, optimum: Optimum, reward: Reward) -> PropertyExpression:
        self.expect("[", "after the bound")
        token = self.next()
        result: PropertyExpression
        name = Name(reward.variable)
        if token.text == "F":
            if self.at("<", "<=", ">", ">=", "[", "{"):
                self.refuse("a bound on F inside R is not read.", "Bound the rewards with C<=k.")
            result = ExpectedReward(optimum, name, reward.accumulate, self._state())
        elif token.text == "C":
            result = ExpectedReward(optimum, name, reward.accumulate)
            if self.take("<="):
                result = replace(result, step_instant=self._bound_value())
        elif token.text == "I":
            self.expect("=", "after I", "The reward at step k is [ I=k ].")
            result = ExpectedReward(optimum, name, (), step_instant=self._bound_value())
        elif token.text in ("S", "LRA", "MP"):
            result = SteadyState(optimum, name, reward.accumulate)
        else:
            self.refuse(f"{token.shown()} is no reward property.", "Write F, C, C<=k, I=k or S.", token)
        self._close()
        return result

    def _close(self) -> None:
        if self.at("{"):
            self.refuse("old filters {...} are not read.", "Write filter(max, ..., states).")
        if self.at("U", "W", "R"):
            self._refuse_nested(self.peek())
        self.expect("]", "to close the property", "Close the bracket, or join conditions with &.")

    def _refuse_nested(self, token: Token) -> NoReturn:
        what = f"the path operator '{token.text}' stands inside a condition; nested path formulas (LTL) are not read."
        self.refuse(what, "Write one of X, F, G, U, W, R over conditions on states.", token)

    def _bracketed_path(self) -> PathFormula:
        self.expect("[", "before the path formula", "The path formula stands in brackets [ ].")
        path = self._path()
        self._close()
        return path

    def _path(self) -> PathFormula:
        token = self.peek()
        if self.at("(") and self.peek(1).text in TEMPORAL and self.peek(1).text not in self.known:
            self.depth += 1
            if self.depth > 100:
                self.refuse("the path formula nests deeper than 100.", "Remove brackets.")
            self.next()
            path = self._path()
            self.expect(")", "for the bracket '('", "Close the bracket.")
            self.depth -= 1
            return path
        if self.at(*TEMPORAL) and token.text not in self.known:
            self.next()
            if token.text == "X":
                return Next(self._state())
            steps, rewards = self._bounds()
            if token.text == "G":
                return Globally(self._state(), steps, None, rewards)
            return Until(TRUE, self._state(), steps, None, rewards)
        left = self._state()
        if not self.at("U", "W", "R"):
            self.unexpected("a path operator", "Write F, G or X before a condition, or U between two.")
        kind = self.next().text
        steps, rewards = self._bounds()
        return Until(left, self._state(), steps, None, rewards, kind)

    def _state(self) -> StateFormula:
        token = self.peek()
        result = self.formula()
        if isinstance(result, Expression | StatePredicate | Comparison | Probability | PathQuantifier):
            return result
        self.refuse("a condition on states should stand here.", "Write a condition, or P>=p [ ... ].", token)

    def _bounds(self) -> tuple[Interval | None, tuple[RewardBound, ...]]:
        if self.at("{"):
            reward = self._reward()
            assert reward is not None
            return None, (RewardBound(Name(reward.variable), reward.accumulate, self._interval()),)
        if self.take("^"):
            return self._listed_bounds()
        if self.at("[", "=", *COMPARISONS):
            return self._interval(), ()
        return None, ()

    def _listed_bounds(self) -> tuple[Interval | None, tuple[RewardBound, ...]]:
        """Return the bounds of `^{steps<=3, rew{"a"}<=2}`."""
        self.expect("{", "after ^", 'Bounds are written ^{rew{"name"}<=k}.')
        steps: Interval | None = None
        rewards: list[RewardBound] = []
        while True:
            token = self.next()
            if token.text == "rew":
                reward = self._reward() or self._first_reward(token)
                rewards.append(RewardBound(Name(reward.variable), reward.accumulate, self._interval()))
            elif token.text in ("steps", "time") and steps is None:
                steps = self._interval()
            else:
                self.refuse(f"{token.shown()} is no kind of bound.", 'Write rew{"name"}<=k or steps<=k.', token)
            if not self.take(","):
                break
        self.expect("}", "after the bounds", "Close the brace.")
        return steps, tuple(rewards)

    def _interval(self) -> Interval:
        if self.take("["):
            lower = self.expression()
            self.expect(",", "between the bounds", "Write the bounds as [2,5].")
            upper = self.expression()
            self.expect("]", "after the bounds", "Close the bounds.")
            return Interval(lower, upper)
        if not self.at("=", *COMPARISONS):
            self.unexpected("a bound", "Write <=k, <k, >=k, >k, =k or [a,b].")
        sign = self.next().text
        value = self._bound_value()
        if sign == "=":
            return Interval(value, value)
        if sign in ("<", "<="):
            return Interval(upper=value, upper_exclusive=sign == "<")
        return Interval(lower=value, lower_exclusive=sign == ">")

    def _bound_value(self) -> Expression:
        """Return a number, a name or an expression in brackets: what may stand before the condition."""
        token = self.peek()
        if token.kind == "name" and token.text not in self.functions and self.peek(1).text == "(":
            self.next()
            self.uses.append((token.text, self.place(token)))
            return Name(token.text)
        if self.take("("):
            result = self.expression()
            self.expect(")", "for the bracket '('", "Close the bracket.")
            return result
        leaf = self.leaf()
        if not isinstance(leaf, Expression):
            self.refuse("a bound is a number.", "Write a number, a constant, or an expression in ( ).", token)
        return leaf
