"""PRISM's property language: text to `Property`, over the words of a model.

    P=? [ F "done" ]    Pmax>=0.9 [ !"crashed" U<=20 x=7 ]    R{"time"}min=? [ F s=3 ]    Rmax=? [ C<=10 ]
    S=? [ up ]    E [ F x=3 ]    A [ G !"crashed" ]    filter(max, Pmax=? [ X a ], "init")    "name": P>=1 [ F a ];

Quantities  P, R and S with min or max, or without. `P>=p` without them on an mdp speaks of all schedulers: it is
            Pmin>=p, and `P<=p` is Pmax<=p; `P=?` is read on a dtmc only.
Paths       X, F, G, U, W, R; step bounds `<=k <k >=k >k =k [a,b]`; reward bounds `{"r"}<=k` and `^{rew{"r"}<=k}`
Rewards     F, C, C<=k, I=k, S; `R` alone takes the first reward structure, `R{"name"}` and `R{2}` the one meant
Labels      "name" is the model's label (a transient bool of a JANI model), a label of the property file, another
            property of the file; "init" and "deadlock" are built in
Files       `const`, `label`, `formula` and properties, `;` between them where needed
Outside of a filter a property speaks of the initial states (JANI's filter `values`).
Refused     by name: nested path formulas (LTL), multi-objective properties, games, time rewards, old filters `{...}`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from polvet.errors import InputError, Where, did_you_mean
from polvet.files import read_text
from polvet.model.automata import Constant, Model
from polvet.model.properties import Filter, Property, StatePredicate
from polvet.prism.lexer import MAX_CHARACTERS, Token
from polvet.prism.parse import constant_declaration, label_definition, quoted_name
from polvet.prism.quantities import QuantityParser
from polvet.prism.translate import Vocabulary


@dataclass(frozen=True, slots=True)
class PropertyFile:
    """What a property file adds to a model: constants of its own, and properties."""

    constants: tuple[Constant, ...] = ()
    properties: tuple[Property, ...] = ()


def parse_property(text: str, vocabulary: Vocabulary, where: Where = Where("property")) -> Property:
    """Return the one property that the text is; its name is the text, unless it brings one of its own."""
    file = load_properties(text, vocabulary, where)
    if len(file.properties) != 1 or file.constants:
        raise InputError(f"the text has {len(file.properties)} properties.", where, "Write one property.")
    (result,) = file.properties
    return replace(result, name=" ".join(text.split())) if result.name == "#1" else result


def load_properties(text: str, vocabulary: Vocabulary, where: Where = Where("properties")) -> PropertyFile:
    """Return the constants and properties in the text; those without a name are called #1, #2, ..."""
    return _PropertyParser(text, vocabulary, where).file()


def read_properties(path: str | Path, vocabulary: Vocabulary) -> PropertyFile:
    """Return the constants and properties in the file."""
    return load_properties(read_text(path, max_bytes=4 * MAX_CHARACTERS), vocabulary, Where(str(path)))


def with_properties(model: Model, file: PropertyFile) -> Model:
    """Return the model with the file's constants and properties added; a name that is taken is refused."""
    used = {one.name for one in model.properties}
    for one in file.properties:
        if one.name in used:
            raise InputError(f"the model already has a property '{one.name}'.", one.where, "Use another name.")
    constants = (*model.constants, *file.constants)
    return replace(model, constants=constants, properties=(*model.properties, *file.properties))


class _PropertyParser(QuantityParser):
    def file(self) -> PropertyFile:
        """Return everything in the text."""
        properties: list[Property] = []
        while self.peek().kind != "end":
            if self.take(";"):
                continue
            token = self.peek()
            if self.take("const"):
                self._constant()
            elif self.take("label"):
                label = label_definition(self)
                self.local.labels[label.name] = label.value
            elif self.take("formula"):
                name = self.identifier("the formula").text
                self.expect("=", "after the formula's name")
                self.local.formulas[name] = self.expression()
                self.known.add(name)
                self.expect(";", "after the formula")
            else:
                properties.append(self._property(len(properties) + 1, token))
        self._check_uses()
        return PropertyFile(tuple(self.local.constants), tuple(properties))

    def _constant(self) -> None:
        constant = constant_declaration(self)
        if constant.name in self.known:
            hint = "Use the model's constant, or another name."
            raise InputError(f"the name '{constant.name}' is taken.", constant.where, hint)
        self.local.constants.append(constant)
        self.known.add(constant.name)

    def _check_uses(self) -> None:
        for name, where in self.uses:
            if name not in self.known:
                hint = did_you_mean(name, self.known) or "`polvet info` lists the names of the model."
                raise InputError(f"no constant, variable or formula '{name}' in the model.", where, hint)

    def _property(self, number: int, token: Token) -> Property:
        name = f"#{number}"
        if token.kind == "quoted" and self.peek(1).text == ":":
            name = quoted_name(self)
            self.next()
            if name in self.local.properties:
                self.refuse(f'the property "{name}" stands twice.', "Use another name.", token)
        start, spent = self.position, self.nodes
        expression = self.formula()
        self.local.properties[name] = expression
        self.local.sizes[name] = self.nodes - spent + self.position - start
        if not self.at(";", "const", "label", "formula") and self.peek().kind != "end":
            after = self.peek()
            if after.line == self.tokens[self.position - 1].line:
                self.unexpected("the end of the property", "Put ; between two properties.")
        if not isinstance(expression, Filter):
            expression = Filter("values", expression, StatePredicate("initial"))
        return Property(name, expression, where=self.place(token))
