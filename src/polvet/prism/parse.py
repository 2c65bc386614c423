"""PRISM programs: text to `Program`, by recursive descent; every refusal names line, column and the next step.

Read      mdp, dtmc (also `nondeterministic`, `probabilistic`; none at all means mdp), const, global, formula, label,
          module, module renaming, rewards, init, system
Refused   by name: ctmc, pta, pomdp and the other model types, clocks, invariants, observables, players, `system "name"`
"""

from __future__ import annotations

from typing import NoReturn

from polvet.errors import Where
from polvet.model.automata import Constant, ModelType, VariableDeclaration
from polvet.model.expressions import Expression
from polvet.model.types import BOOL, INT, REAL, IntType, Type
from polvet.prism.expressions import ExpressionParser
from polvet.prism.lexer import Token
from polvet.prism.syntax import (
    Command,
    Definition,
    Hide,
    Module,
    ModuleReference,
    Parallel,
    Process,
    Program,
    Rename,
    RenamedModule,
    RewardItem,
    Rewards,
    Update,
)

MODEL_TYPES = {
    "mdp": ModelType.MDP,
    "nondeterministic": ModelType.MDP,
    "dtmc": ModelType.DTMC,
    "probabilistic": ModelType.DTMC,
}
REFUSED_TYPES = {
    "ctmc": "a continuous-time Markov chain",
    "stochastic": "a continuous-time Markov chain",
    "ctmdp": "a continuous-time Markov decision process",
    "ma": "a Markov automaton",
    "pta": "a probabilistic timed automaton",
    "popta": "a partially observable timed automaton",
    "pomdp": "a partially observable Markov decision process",
    "smg": "a stochastic game",
    "csg": "a concurrent game",
    "tsg": "a timed game",
    "imdp": "an interval Markov decision process",
    "idtmc": "an interval Markov chain",
    "lts": "a labelled transition system",
}
REFUSED_PARTS = {
    "invariant": "clock invariants belong to timed automata.",
    "observables": "observables belong to partially observable models.",
    "observable": "observables belong to partially observable models.",
    "player": "players belong to games.",
    "clock": "clocks belong to timed automata.",
}
PARTS = "const, global, formula, label, module, rewards, init or system"


def parse_program(text: str, where: Where) -> Program:
    """Return the program that the text is; `where` names its origin in messages."""
    return _ProgramParser(text, where).program()


class _ProgramParser(ExpressionParser):
    def __init__(self, text: str, where: Where) -> None:
        super().__init__(text, where)
        self.type: ModelType | None = None
        self.constants: list[Constant] = []
        self.variables: list[VariableDeclaration] = []
        self.modules: list[Module | RenamedModule] = []
        self.formulas: list[Definition] = []
        self.labels: list[Definition] = []
        self.rewards: list[Rewards] = []
        self.init: Definition | None = None
        self.system: Process | None = None

    def program(self) -> Program:
        """Return the whole program."""
        parts = {
            "const": self._constant,
            "global": self._global,
            "formula": self._formula,
            "label": self._label,
            "module": self._module,
            "rewards": self._rewards,
            "init": self._init,
            "system": self._system,
        }
        while (token := self.peek()).kind != "end":
            if token.kind == "name" and token.text in parts:
                self.next()
                parts[token.text](token)
            else:
                self._model_type(token)
        return Program(
            self.type or ModelType.MDP,
            tuple(self.constants),
            tuple(self.variables),
            tuple(self.modules),
            tuple(self.formulas),
            tuple(self.labels),
            tuple(self.rewards),
            self.init,
            self.system,
            self.where,
            tuple(self.uses),
        )

    def _model_type(self, token: Token) -> None:
        if token.text in REFUSED_TYPES:
            self.refuse(f"'{token.text}' is {REFUSED_TYPES[token.text]}.", "Only mdp and dtmc are read.")
        if token.text in REFUSED_PARTS:
            self._refuse_part(token)
        if token.text not in MODEL_TYPES or token.kind != "name":
            self.unexpected(f"{PARTS}", "Check the ; and the end... before it.")
        if self.type is not None:
            self.refuse(f"the model type stands twice ({token.shown()}).", "Keep one of them.")
        self.type = MODEL_TYPES[token.text]
        self.next()

    def _refuse_part(self, token: Token) -> NoReturn:
        self.refuse(f"'{token.text}' is not read: {REFUSED_PARTS[token.text]}", "Only mdp and dtmc are read.")

    def _constant(self, keyword: Token) -> None:
        self.constants.append(constant_declaration(self))

    def _global(self, keyword: Token) -> None:
        self.variables.append(self._variable())

    def _formula(self, keyword: Token) -> None:
        token = self.identifier("the formula")
        self.expect("=", "after the formula's name")
        self.formulas.append(Definition(token.text, self.expression(), self.place(token)))
        self._semicolon("the formula")

    def _label(self, keyword: Token) -> None:
        self.labels.append(label_definition(self))

    def _init(self, keyword: Token) -> None:
        if self.init is not None:
            self.refuse("init stands twice.", "Join the two conditions with &.", keyword)
        condition = self.expression()
        self.take(";")
        self.expect("endinit", "after the condition")
        self.init = Definition("init", condition, self.place(keyword))

    def _semicolon(self, after: str) -> None:
        self.expect(";", f"after {after}")

    def _variable(self) -> VariableDeclaration:
        token = self.identifier("the variable")
        self.expect(":", f"after the variable '{token.text}'", "Write x : [0..3] init 0;")
        kind = self.peek()
        type_: Type
        if self.take("["):
            lower = self.expression()
            self.expect("..", "between the bounds", "Write the bounds as [0..3].")
            upper = self.expression()
            self.expect("]", "after the bounds", "Close the bounds.")
            type_ = IntType(lower, upper)
        elif self.take("bool"):
            type_ = BOOL
        elif self.take("int"):
            type_ = INT
        elif kind.text == "clock":
            self._refuse_part(kind)
        else:
            self.unexpected("a type", "The types are [low..high], bool and int.")
        initial = self.expression() if self.take("init") else None
        self._semicolon(f"the variable '{token.text}'")
        return VariableDeclaration(token.text, type_, initial, where=self.place(token))

    def _module(self, keyword: Token) -> None:
        name = self.identifier("the module")
        if self.take("="):
            self.modules.append(self._renamed(name))
            return
        variables: list[VariableDeclaration] = []
        commands: list[Command] = []
        while not self.take("endmodule"):
            token = self.peek()
            if token.kind == "sign" and token.text == "[":
                commands.append(self._command())
            elif token.text in REFUSED_PARTS:
                self._refuse_part(token)
            elif token.kind == "name" and self.peek(1).text == ":":
                if commands:
                    self.refuse("a variable stands behind a command.", "Declare variables before the commands.")
                variables.append(self._variable())
            else:
                what = f"a variable, a command or endmodule of module '{name.text}'"
                self.unexpected(what, "A command is written [a] x=0 -> (x'=1); and a variable x : [0..1];")
        self.modules.append(Module(name.text, tuple(variables), tuple(commands), self.place(name)))

    def _renamed(self, name: Token) -> RenamedModule:
        base = self.identifier("the module to copy")
        self.expect("[", "before the renamings", f"Write module {name.text} = {base.text} [ old=new ] endmodule.")
        renaming: list[tuple[str, str, Where]] = []
        while True:
            old = self.identifier("the old name")
            self.expect("=", f"after '{old.text}'", "A renaming is written old=new.")
            new = self.identifier("the new name")
            if any(old.text == known for known, _, _ in renaming):
                self.refuse(f"'{old.text}' is renamed twice.", "Keep one of the two.", old)
            renaming.append((old.text, new.text, self.place(old)))
            if not self.take(","):
                break
        self.expect("]", "after the renamings", "Close the renamings, or put a comma between them.")
        self.expect("endmodule", "after the renamings")
        return RenamedModule(name.text, base.text, tuple(renaming), self.place(name))

    def _command(self) -> Command:
        start = self.next()
        action = None if self.at("]") else self.identifier("the action").text
        self.expect("]", "after the action", "Close the action's bracket.")
        guard = self.expression()
        self.expect("->", "between guard and update", "A command is written [a] guard -> update;")
        updates = [self._update()]
        while self.take("+"):
            updates.append(self._update())
        if len(updates) > 1:
            for update in updates:
                if update.probability is None:
                    self.refuse("an update among several has no probability.", "Write 0.5 : before it.", start)
        self._semicolon("the command")
        return Command(action, guard, tuple(updates), self.place(start))

    def _starts_assignment(self) -> bool:
        return self.at("(") and self.peek(1).kind == "name" and self.peek(2).text == "'"

    def _update(self) -> Update:
        start = self.peek()
        probability: Expression | None = None
        if self.at("["):
            self.refuse("interval probabilities are not read.", "Give each update one probability.")
        bare = self.at("true") and self.peek(1).text in (";", "+")
        if not self._starts_assignment() and not bare:
            probability = self.expression()
            self.expect(":", "after the probability", "An update is written 0.5 : (x'=1) & (y'=0), or true.")
        if self.take("true"):
            return Update(probability, (), self.place(start))
        assignments: list[tuple[str, Expression, Where]] = []
        while True:
            if not self._starts_assignment():
                self.unexpected("an assignment", "An assignment is written (x'=1); join them with &.")
            self.next()
            target = self.next()
            self.next()
            self.expect("=", f"after {target.text}'", "An assignment is written (x'=1).")
            if any(target.text == known for known, _, _ in assignments):
                self.refuse(f"'{target.text}' is assigned twice in one update.", "Keep one assignment.", target)
            assignments.append((target.text, self.expression(), self.place(target)))
            self.expect(")", "after the assignment", "Close the bracket of the assignment.")
            if not self.take("&"):
                return Update(probability, tuple(assignments), self.place(start))

    def _rewards(self, keyword: Token) -> None:
        name = None
        if self.peek().kind == "quoted":
            name = quoted_name(self)
        items: list[RewardItem] = []
        while not self.take("endrewards"):
            token = self.peek()
            if token.kind == "end":
                self.unexpected("a reward or endrewards", "Write endrewards.")
            action: str | None = None
            if self.take("["):
                action = "" if self.at("]") else self.identifier("the action").text
                self.expect("]", "after the action", "Close the action's bracket.")
            guard = self.expression()
            self.expect(":", "between the condition and the reward", "A reward is written x=1 : 5;")
            items.append(RewardItem(action, guard, self.expression(), self.place(token)))
            self._semicolon("the reward")
        self.rewards.append(Rewards(name, tuple(items), self.place(keyword)))

    def _system(self, keyword: Token) -> None:
        if self.system is not None:
            self.refuse("system stands twice.", "Keep one of them.", keyword)
        if self.peek().kind == "quoted":
            self.refuse("named systems are not read.", "Keep one system without a name.")
        self.system = self._full_parallel()
        self.expect("endsystem", "after the composition", "Close it, or join the modules with ||.")

    def _full_parallel(self) -> Process:
        self.depth += 1
        if self.depth > 100:
            self.refuse("the composition nests deeper than 100.", "Use fewer brackets.")
        left = self._interleaved()
        while self.at("||"):
            token = self.next()
            left = Parallel(left, self._interleaved(), None, self.place(token))
        self.depth -= 1
        return left

    def _interleaved(self) -> Process:
        left = self._over_actions()
        while self.at("|||"):
            token = self.next()
            left = Parallel(left, self._over_actions(), (), self.place(token))
        return left

    def _over_actions(self) -> Process:
        left = self._changed()
        while self.at("|") and self.peek(1).text == "[":
            token = self.next()
            self.next()
            actions = () if self.at("]") else self.actions()
            self.expect("]", "after the actions", "Write |[a,b]|.")
            self.expect("|", "after the actions", "Write |[a,b]|.")
            left = Parallel(left, self._changed(), actions, self.place(token))
        return left

    def _changed(self) -> Process:
        process: Process
        if self.take("("):
            process = self._full_parallel()
            self.expect(")", "for the bracket '('", "Close the bracket.")
        else:
            name = self.identifier("the module")
            process = ModuleReference(name.text, self.place(name))
        changes = 0
        while self.at("/", "{"):
            changes += 1
            if changes > 100:
                self.refuse("over 100 changes stand in a row.", "Join them into one.")
            token = self.next()
            if token.text == "/":
                self.expect("{", "after /", "Hiding is written / {a,b}.")
                actions = self.actions()
                process = Hide(process, actions, self.place(token))
            else:
                process = Rename(process, self._renamings(), self.place(token))
            self.expect("}", "after the actions", "Close the brace.")
        return process

    def _renamings(self) -> tuple[tuple[str, str], ...]:
        renamings: list[tuple[str, str]] = []
        while True:
            old = self.identifier("the action")
            self.expect("<", f"after '{old.text}'", "Renaming is written {old<-new}.")
            self.expect("-", f"after '{old.text}<'", "Renaming is written {old<-new}.")
            if any(old.text == known for known, _ in renamings):
                self.refuse(f"'{old.text}' is renamed twice.", "Keep one of the two.", old)
            renamings.append((old.text, self.identifier("the action").text))
            if not self.take(","):
                return tuple(renamings)


def constant_declaration(parser: ExpressionParser) -> Constant:
    """Return the constant whose `const` was just read."""
    types: dict[str, Type] = {"int": INT, "double": REAL, "bool": BOOL, "prob": REAL, "rate": REAL}
    type_ = types[parser.next().text] if parser.at(*types) else INT
    token = parser.identifier("the constant")
    value = parser.expression() if parser.take("=") else None
    parser.expect(";", f"after the constant '{token.text}'")
    return Constant(token.text, type_, value, parser.place(token))


def label_definition(parser: ExpressionParser) -> Definition:
    """Return the label whose `label` was just read."""
    token = parser.peek()
    name = quoted_name(parser)
    if name in ("init", "deadlock"):
        parser.refuse(f'the label "{name}" is built in.', "Use another name.", token)
    parser.expect("=", "after the label's name")
    value = parser.expression()
    parser.expect(";", f'after the label "{name}"')
    return Definition(name, value, parser.place(token))


def quoted_name(parser: ExpressionParser) -> str:
    """Return the name in double quotes that comes."""
    token = parser.peek()
    if token.kind != "quoted":
        parser.unexpected("a name in double quotes", 'Write it as "name".')
    if len(token.text) == 2:
        parser.refuse("the quotes hold no name.", "Write the name between them.")
    return parser.next().text[1:-1]
