"""The grammar of features: text such as `n_count(c_some(r_primitive(on,0,1),c_top))` to terms, with sorts checked.

Source   Martin & Geffner, "Learning generalized policies from examples using concept languages", 2004; Bonet, Frances &
         Geffner, "Learning features and abstract actions for computing generalized plans", AAAI 2019
Sorts are told by the first letter: `b_` booleans, `n_` numbers, `c_` concepts (sets of objects), `r_` roles (sets of
pairs). `p_g` is the predicate p in the goal; a type is a predicate of one argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from polvet.errors import InputError, Where, suggest
from polvet.pddl.syntax import Vocabulary

GOAL_SUFFIX = "_g"
MAX_DEPTH = 60

SIGNATURES: dict[str, tuple[str, ...]] = {
    "b_empty": ("c", "r"), "b_inclusion": ("cc", "rr"), "b_nullary": ("p",),
    "n_count": ("c", "r"), "n_concept_distance": ("crc",), "n_sum_concept_distance": ("crc",),
    "n_role_distance": ("rrr",), "n_sum_role_distance": ("rrr",),
    "c_top": ("",), "c_bot": ("",), "c_one_of": ("o",), "c_primitive": ("pi",), "c_not": ("c",), "c_and": ("cc",), "c_or": ("cc",),
    "c_diff": ("cc",), "c_some": ("rc",), "c_all": ("rc",), "c_equal": ("rr",), "c_subset": ("rr",), "c_projection": ("ri",),
    "r_top": ("",), "r_primitive": ("pii",), "r_not": ("r",), "r_and": ("rr",), "r_or": ("rr",), "r_diff": ("rr",), "r_compose": ("rr",),
    "r_inverse": ("r",), "r_restrict": ("rc",), "r_identity": ("c",), "r_transitive_closure": ("r",),
    "r_transitive_reflexive_closure": ("r",),
}  # fmt: skip
"""What each operator takes: concepts, roles, a predicate, an argument's number, an object."""
WORDS = {"c": "a concept", "r": "a role", "p": "a predicate", "i": "the number of an argument", "o": "an object"}
_TOKEN = re.compile(r"\s*(?:([\w.@+=-]+)|([(),]))")


@dataclass(frozen=True, slots=True)
class Term:
    """An operator and what it is applied to: terms, names of predicates and objects, numbers of arguments."""

    operator: str
    parts: tuple[Term | str | int, ...]
    where: Where = field(compare=False, repr=False)

    @property
    def sort(self) -> str:
        """`b`, `n`, `c` or `r`."""
        return self.operator[0]

    def subterms(self) -> Iterator[Term]:
        """Yield the term and all below it."""
        yield self
        for part in self.parts:
            if isinstance(part, Term):
                yield from part.subterms()

    def __str__(self) -> str:
        return f"{self.operator}({','.join(map(str, self.parts))})" if self.parts else self.operator


def parse_term(text: str, where: Where, *, sorts: str = "bn") -> Term:
    """Return the term that the text is, of one of the sorts, or raise an InputError with the place in the text.

    >>> str(parse_term("n_count( c_not(c_primitive(clear, 0)) )", Where("f")))
    'n_count(c_not(c_primitive(clear,0)))'
    """
    tokens: list[tuple[str, Where]] = []
    position = 0
    while text[position:].strip():
        outcome = _TOKEN.match(text, position)
        if outcome is None:
            raise InputError(
                f"'{text[position:].strip()[:30]}' cannot be read in '{text}'.", where, "Write n_count(c_top)."
            )
        start = outcome.end() - len(outcome.group().strip())
        tokens.append((outcome.group().strip(), where.at(f"character {start + 1}")))
        position = outcome.end()
    parser = _Parser(tokens, text, where)
    term = parser.term(sorts, 0)
    if parser.tokens:
        word, place = parser.tokens[0]
        raise InputError(f"'{word}' stands behind the end of '{text}'.", place, "Remove it.")
    return term


class _Parser:
    """Recursive descent; every method eats tokens."""

    def __init__(self, tokens: list[tuple[str, Where]], text: str, where: Where) -> None:
        self.tokens, self._text, self._where = tokens, text, where

    def term(self, sorts: str, depth: int) -> Term:
        word, place = self._next("a feature")
        if depth > MAX_DEPTH:
            raise InputError(f"the feature nests deeper than {MAX_DEPTH}.", place, "Nest less.")
        if word not in SIGNATURES:
            known = [name for name in SIGNATURES if name[0] in sorts]
            raise InputError(f"no operator '{word}'.", place, suggest(word, known))
        if word[0] not in sorts:
            wanted = {"bn": "a boolean or a number"}.get(sorts) or " or ".join(WORDS.get(sort, sort) for sort in sorts)
            raise InputError(f"'{word}' stands where {wanted} should be.", place, "See the list of operators.")
        shapes = SIGNATURES[word]
        if shapes == ("",):
            if self._eat("("):
                self._expect(")")
            return Term(word, (), place)
        self._expect("(")
        parts: list[Term | str | int] = []
        for index in range(len(shapes[0])):
            if index:
                self._expect(",")
            fitting = "".join(dict.fromkeys(shape[index] for shape in shapes))
            if parts and isinstance(first := parts[0], Term) and len(shapes) > 1:
                fitting = first.sort  # b_inclusion: of two concepts, or of two roles
            parts.append(self._part(fitting, depth))
        self._expect(")")
        return Term(word, tuple(parts), place)

    def _part(self, sorts: str, depth: int) -> Term | str | int:
        if sorts in ("p", "o"):
            return self._next(WORDS[sorts])[0].lower()
        if sorts == "i":
            word, place = self._next(WORDS["i"])
            if not word.isdigit() or len(word) > 3:
                raise InputError(f"'{word}' is not the number of an argument.", place, "Arguments count from 0.")
            return int(word)
        return self.term(sorts, depth + 1)

    def _next(self, what: str) -> tuple[str, Where]:
        if not self.tokens or self.tokens[0][0] in "(),":
            place = self.tokens[0][1] if self.tokens else self._where
            raise InputError(f"{what} is missing in '{self._text}'.", place, "Write n_count(c_primitive(p,0)).")
        return self.tokens.pop(0)

    def _eat(self, word: str) -> bool:
        if self.tokens and self.tokens[0][0] == word:
            self.tokens.pop(0)
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._eat(word):
            shown, place = self.tokens[0] if self.tokens else ("the end", self._where)
            raise InputError(f"'{word}' is expected before {shown} in '{self._text}'.", place, "Write it.")


def check_words(term: Term, words: Vocabulary) -> None:
    """Refuse predicates, arguments and objects that the problem does not have."""
    for one in term.subterms():
        match one.operator, one.parts:
            case "b_nullary", (str(name),):
                _check_arity(name, 0, (), words, one.where)
            case (("c_primitive" | "r_primitive"), (str(name), *numbers)):
                _check_arity(name, None, tuple(int(str(number)) for number in numbers), words, one.where)
            case "c_one_of", (str(name),):
                if name not in words.objects:
                    raise InputError(f"no object '{name}'.", one.where, suggest(name, words.objects))


def _check_arity(name: str, wanted: int | None, numbers: tuple[int, ...], words: Vocabulary, where: Where) -> None:
    arity = arity_of(name, words)
    if arity is None:
        raise InputError(f"no predicate '{name}'.", where, suggest(name, words.predicates))
    if wanted is not None and arity != wanted:
        raise InputError(f"'{name}' has {arity} arguments, not {wanted}.", where, "Use c_primitive or r_primitive.")
    if any(number >= arity for number in numbers):
        raise InputError(f"'{name}' has {arity} arguments, which count from 0.", where, "Correct the number.")


def arity_of(name: str, words: Vocabulary) -> int | None:
    """Return how many arguments the predicate (of the state or the goal) or the type has; None where there is none."""
    for candidate in (name, name.removesuffix(GOAL_SUFFIX)):
        if candidate in words.predicates:
            return len(words.predicates[candidate].parameters)
    return 1 if name in words.parents or name == "object" else None
