"""From a `Network` to a program of the kernel.

Joints are sorted by label, so that the moves of a state come grouped by what a policy chooses; silent ones come last.
The edges of all joints' first participants are chosen by jumps on the variables their guards compare with constants
(`SWITCH`); the edges of further participants are looked at only where the first one moves.

Fast path    updates read the state's registers and write the packed successor at once: all assignments have one index.
Careful path several indices, possible double writes, or transient variables read again: slots are written beside, one
             index at a time, and packed at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError
from polvet.kernel.assemble import Assembler
from polvet.kernel.chances import ChanceWriter, ProgramData
from polvet.kernel.layout import Field, lay_out
from polvet.kernel.lower_table import LEAST_CHANCE, RowWriter
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Select,
    Unary,
    conjuncts,
    disjuncts,
    names,
)
from polvet.model.folding import value_of
from polvet.model.network import MOST_BRANCHES, Branch, Joint, Kind, Network, NetworkEdge, Update
from polvet.model.tables import REWARD, TableMoves

MAX_SWITCH_RANGE = 4096
SPARSEST = 4
"""A jump may have a longer range where at least one in so many of its values is tested."""
LONG_DISJUNCTION = 4
PLAIN = ("∧", "∨", "⇒", "=", "≠", "<", "≤", ">", "≥")


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward to be collected: per visit of a state, and per step (read right after it)."""

    per_state: Expression | None
    per_step: Expression | None


@dataclass(frozen=True, slots=True)
class _Item:
    """An edge that may move, with what of its guard is still to be tested."""

    joint: int
    edge: int
    tests: tuple[Expression, ...]


def lower(
    network: Network,
    *,
    conditions: Sequence[Expression] = (),
    rewards: Sequence[Reward] = (),
    budget: Budget = UNLIMITED,
) -> ProgramData:
    """Return the program as the plain data that `_core.Program.make` takes.

    The code of the edges is made once for a network, and kept with it; conditions and rewards are added to a copy.
    """
    wanted = frozenset(name for one in rewards if one.per_step is not None for name in names(one.per_step))
    key = f"lowered {sorted(wanted)}"
    if key not in network.derived:
        network.derived[key] = _Lowering(network, wanted, budget)
    lowering: _Lowering = network.derived[key]
    return lowering.copy().program(conditions, rewards)


class _Lowering:
    def __init__(self, network: Network, wanted: frozenset[str], budget: Budget) -> None:
        self.network = network
        slots = (*network.variables, *network.scratch)
        self.slots = {variable.name: i for i, variable in enumerate(slots)}
        self.variables = {variable.name: variable for variable in slots}
        self.fields, self.words = lay_out(network.variables)
        kinds = {variable.name: variable.kind for variable in slots}
        self.out = Assembler(self.slots, kinds)
        self.chances = ChanceWriter(self.slots, kinds)
        self.masks: dict[int, int] = {}
        self.jumps: list[tuple[int, list[int], int]] = []
        self.branches: list[tuple[float, int, int, int]] = []
        self.careful: list[tuple[int, int]] = []
        for variable in network.scratch:
            value = variable.initial
            assert value is not None
            register = self.out.constant(float(value) if variable.kind is Kind.REAL else int(value))
            self.out.registers[self.slots[variable.name]] = self.out.registers[register]
        self.moves = self._moves(wanted, budget)
        self.encoded = _encoded(self.out.code)

    def copy(self) -> _Lowering:
        """Return the same lowering, to which code can be added without changing this one."""
        other = copy(self)
        other.out, other.jumps = self.out.copy(), list(self.jumps)
        return other

    def _moves(self, wanted: frozenset[str], budget: Budget) -> ProgramData:
        """Emit the code of all edges and of the choice among them."""
        network = self.network
        order = {label: i for i, label in enumerate(network.labels)}
        joints = sorted(network.joints, key=lambda joint: order.get(joint.label or "", len(order)))
        joints = [joint for joint in joints if joint.label is not None] + [j for j in joints if j.label is None]
        if isinstance(network.edges, TableMoves):
            return self._table(network.edges, joints, wanted, budget)
        traits = [_Traits.of(edge, self.slots, len(network.variables)) for edge in budget.each(network.edges)]
        is_careful = [_needs_care(joint.participants, traits) for joint in joints]
        used: dict[int, set[bool]] = defaultdict(set)
        for joint, careful in zip(joints, is_careful, strict=True):
            for edges in joint.participants:
                for edge in edges:
                    used[edge].add(careful)
        edge_rows = [self._edge(edge, used.get(i, set()), wanted) for i, edge in enumerate(budget.each(network.edges))]

        menus: list[int] = []
        shared: dict[tuple[int, ...], int] = {}  # participants with the same edges share a menu
        references: list[int] = []
        rows = []
        leads: list[_Item] = []
        for number, (joint, careful) in enumerate(zip(joints, is_careful, strict=True)):
            leads += self._items(number, joint.participants[0])
            begin = len(references)
            for edges in joint.participants[1:]:
                if edges not in shared:
                    shared[edges] = len(menus)
                    menus.append(self._menu(self._items(number, edges)))
                references.append(shared[edges])
            rows.append((order[joint.label] if joint.label is not None else -1, careful, begin, len(references)))
        lead = self._menu(leads)
        return self._data(edges=edge_rows, joints=rows, menus=menus, menu_refs=references, lead=lead)

    def _table(self, moves: TableMoves, joints: list[Joint], wanted: frozenset[str], budget: Budget) -> ProgramData:
        """Emit the rows of a table and the choice among them."""
        order = {label: i for i, label in enumerate(self.network.labels)}
        fields = {variable.name: field for variable, field in zip(self.network.variables, self.fields, strict=True)}
        writer = RowWriter(moves, self.out, fields, self.masks)
        edges, self.branches = writer.branches(budget, is_rewarded=moves.is_rewarded and REWARD in wanted)
        lead = writer.menu(joints, self.jumps)
        rows = [(order[joint.label or ""], False, 0, 0) for joint in joints]
        return self._data(edges=edges, joints=rows, menus=[], menu_refs=[], lead=lead)

    def _data(self, **choice: Any) -> ProgramData:
        """Return the program's parts so far, besides its code."""
        network = self.network
        return {
            "words": self.words,
            "variables": len(network.variables),
            "slots": len(self.slots),
            "most_branches": MOST_BRANCHES,
            "masks": list(self.masks),
            "fields": [field.as_tuple() for field in self.fields],
            "scratch_bounds": [lay_out((variable,))[0][0].as_tuple() for variable in network.scratch],
            "branches": self.branches,
            **self.chances.data(),
            "careful": self.careful,
            **choice,
            "reads": self._read_variables(),
            "disable_out_of_bounds": network.disables_out_of_bounds,
            "uniform": network.is_chain,
        }

    def program(self, conditions: Sequence[Expression], rewards: Sequence[Reward]) -> ProgramData:
        """Add the code of conditions and rewards, and return the whole program."""
        out = self.out
        tests = [self._piece(self._truth, condition) for condition in conditions]
        per_state = [self._piece(self._real, one.per_state) for one in rewards]
        per_step = [self._piece(self._real, one.per_step) for one in rewards]
        return {
            **self.moves,
            # SOUND: what is added jumps to places of its own only, so the encoded beginning stays as it is.
            "code": np.concatenate([self.encoded, _encoded(out.code[len(self.encoded) :])]),
            "registers": out.registers,
            "jumps": self.jumps,
            "tables": out.tables,
            "conditions": tests,
            "state_rewards": per_state,
            "step_rewards": per_step,
        }

    # -- conditions and rewards

    def _piece(self, emit: Callable[[Expression], int], expression: Expression | None) -> tuple[int, list[int]]:
        """Return where the expression's code begins, -1 for none, and the variables that it reads."""
        self.out.read.clear()
        entry = -1 if expression is None else emit(expression)
        return entry, self._read_variables()

    def _read_variables(self) -> list[int]:
        return sorted(slot for slot in self.out.read if slot < len(self.fields))

    def _truth(self, condition: Expression) -> int:
        """Emit code that returns 1 or 0: a long disjunction of plain tests finds its parts by jumps, as guards do."""
        entry = self.out.here
        parts = list(disjuncts(condition))
        if len(parts) < LONG_DISJUNCTION or not self._is_plain(condition):
            parts = [condition]
        self._group([_Item(0, 0, tuple(conjuncts(part))) for part in parts], self._say_true)
        self.out.emit("RET", self.out.constant(0))
        return entry

    def _say_true(self, _: _Item) -> None:
        self.out.emit("RET", self.out.constant(1))

    def _is_plain(self, condition: Expression) -> bool:
        """Whether no test can go wrong, so that their order does not matter: variables and constants are only compared."""
        match condition:
            case Binary(operator, left, right):
                return operator in PLAIN and self._is_plain(left) and self._is_plain(right)
            case Unary("¬", operand):
                return self._is_plain(operand)
            case Name(name):
                return self.variables[name].kind is not Kind.REAL
            case _:
                return isinstance(condition, BoolLiteral | IntLiteral)

    def _real(self, expression: Expression) -> int:
        entry = self.out.here
        self.out.emit("RET", self.out.value(expression, Kind.REAL))
        return entry

    # -- guards

    def _items(self, joint: int, edges: Iterable[int]) -> list[_Item]:
        return [_Item(joint, edge, tuple(conjuncts(self.network.edges[edge].guard))) for edge in edges]

    def _menu(self, items: list[_Item]) -> int:
        """Emit code that names every item whose tests hold; the machine sorts what it names."""
        entry = self.out.here
        self._group(items, lambda item: self.out.emit("EMIT", item.joint, item.edge))
        self.out.emit("HALT")
        return entry

    def _group(self, items: list[_Item], accept: Callable[[_Item], object]) -> None:
        """Emit tests of the items: those that compare one variable with constants share a jump on its value.

        `accept` emits what is done where all tests of an item hold.

        Items that do not test the variable are not repeated under its values: they come after, with a jump of their own
        (typically one per automaton, on its location).
        """
        while (split := self._best_split(items)) is not None:
            name, by_value, items = split
            values = sorted(by_value)
            base = values[0]
            switch = len(self.jumps)
            self.jumps.append((base, [], 0))
            self.out.emit("SWITCH", self.out.value(Name(name)), switch)
            starts: dict[int, int] = {}
            ends: list[int] = []
            for value in values:
                starts[value] = self.out.here
                self._group(by_value[value], accept)
                ends.append(self.out.emit("JMP"))
            self.out.land(ends)
            after = self.out.here
            self.jumps[switch] = (base, [starts.get(value, after) for value in range(base, values[-1] + 1)], after)
        for item in items:
            fails = [jump for test in item.tests for jump in self.out.unless(test)]
            accept(item)
            self.out.land(fails)

    def _best_split(self, items: list[_Item]) -> tuple[str, dict[int, list[_Item]], list[_Item]] | None:
        """Return the variable that most items compare with different constants, those items by value, and the rest."""
        if len(items) < 3:
            return None
        values: dict[str, Counter[int]] = defaultdict(Counter)
        tested: list[dict[str, tuple[int, int]]] = []  # per item: variable -> (value, which test)
        for item in items:
            equalities: dict[str, tuple[int, int]] = {}
            for place, test in enumerate(item.tests):
                equality = _equality(test)
                if equality is not None and equality[0] not in equalities:
                    equalities[equality[0]] = equality[1], place
            tested.append(equalities)
            for name, (value, _) in equalities.items():
                values[name][value] += 1
        best, gain = None, 1.5
        for name, counts in values.items():
            # What a jump saves: all tested items but those under the value at hand.
            saved = counts.total() - max(counts.values())
            if saved > gain and max(counts) - min(counts) < max(MAX_SWITCH_RANGE, SPARSEST * len(counts)):
                best, gain = name, saved
        if best is None:
            return None
        by_value: dict[int, list[_Item]] = defaultdict(list)
        rest = []
        for item, equalities in zip(items, tested, strict=True):
            if best in equalities:
                value, place = equalities[best]
                remaining = item.tests[:place] + item.tests[place + 1 :]
                by_value[value].append(_Item(item.joint, item.edge, remaining))
            else:
                rest.append(item)
        return best, by_value, rest

    # -- updates

    def _edge(self, edge: NetworkEdge, used: set[bool], wanted: frozenset[str]) -> tuple[int, int, int]:
        begin = len(self.branches)
        computed = -1
        if any(value_of(branch.probability) is None for branch in edge.branches):
            chances = [branch.probability for branch in edge.branches]
            reads = sorted({self.slots[name] for chance in chances for name in names(chance)})
            self.out.read.update(reads)
            computed = self.chances.edge(chances, reads)
        for branch in edge.branches:
            try:
                self.branches.append(self._branch(branch, used, wanted))
            except InputError as error:
                raise InputError(error.what, edge.where, error.hint) from None
        return begin, len(self.branches), computed

    def _branch(self, branch: Branch, used: set[bool], wanted: frozenset[str]) -> tuple[float, int, int, int]:
        known = value_of(branch.probability)
        # SOUND: a branch that is possible stays so where its probability is too small for a double.
        chance = max(float(known), LEAST_CHANCE) if known is not None and known > 0 else 0.0
        fast = self._fast(branch.updates, wanted) if False in used else -1
        begin = len(self.careful)
        if True in used:
            for index in sorted({update.index for update in branch.updates}):
                self.careful.append((index, self._put([u for u in branch.updates if u.index == index])))
        return chance, fast, begin, len(self.careful)

    def _mask(self, bits: int) -> int:
        return self.masks.setdefault(bits, len(self.masks))

    def _fast(self, updates: Sequence[Update], wanted: frozenset[str]) -> int:
        out = self.out
        entry = out.here
        constant: dict[int, tuple[int, int]] = {}  # word -> (mask, bits)
        for update in updates:
            if isinstance(update.target, Select):
                self._store_element(update.target, update.value)
                continue
            name = update.target.name
            slot, variable = self.slots[name], self.variables[name]
            if slot >= len(self.fields):
                if name in wanted or variable.lower is not None or variable.upper is not None:
                    out.emit("STR", slot, out.value(update.value, variable.kind))
                continue
            field = self.fields[slot]
            bits = _constant_bits(update.value, field, variable.kind)
            if bits is not None:
                mask, value = constant.get(field.word, (0, 0))
                constant[field.word] = mask | field.mask << field.shift, value | bits << field.shift
            elif variable.kind is Kind.REAL:
                out.emit("STF", slot, out.value(update.value, Kind.REAL))
            elif (step := self._step(update.value)) is not None and field.range < 2**62:
                out.emit("INC", slot, *step)
            else:
                out.emit("STI", slot, out.value(update.value, variable.kind))
        for word, (mask, value) in constant.items():
            out.emit("SETW", word, self._mask(mask), self._mask(value))
        out.emit("HALT")
        return entry

    def _step(self, value: Expression) -> tuple[int, int] | None:
        """Recognise `y + c` and `y - c` for a bounded integer y, and return the registers of y and of the constant."""
        match value:
            case Binary("+", Name(name), IntLiteral(number)) | Binary("+", IntLiteral(number), Name(name)):
                pass
            case Binary("-", Name(name), IntLiteral(number)):
                number = -number
            case _:
                return None
        slot = self.slots[name]
        if slot >= len(self.fields) or self.fields[slot].range >= 2**62 or abs(number) >= 2**62:
            return None
        return self.out.value(Name(name)), self.out.constant(number)

    def _element_kind(self, target: Select) -> Kind:
        first = target.items[0]
        assert isinstance(first, Name)
        return self.variables[first.name].kind

    def _store_element(self, target: Select, value: Expression) -> None:
        place = self.out.position(target, 0)
        stored = self.out.value(value, self._element_kind(target), 1)
        self.out.emit("STX", self.out.table([self.slots[n] for n in _cells(target)]), place, stored)

    def _put(self, updates: Sequence[Update]) -> int:
        out = self.out
        entry = out.here
        for update in updates:
            if isinstance(update.target, Select):
                place = out.position(update.target, 0)
                stored = out.value(update.value, self._element_kind(update.target), 1)
                out.emit("PUTX", out.table([self.slots[n] for n in _cells(update.target)]), place, stored)
            else:
                variable = self.variables[update.target.name]
                out.emit("PUT", self.slots[update.target.name], out.value(update.value, variable.kind))
        out.emit("HALT")
        return entry


def _encoded(code: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    return np.array(code, dtype=np.int32).reshape(-1, 4)


def _cells(target: Select) -> list[str]:
    return [item.name for item in target.items if isinstance(item, Name)]


def _equality(test: Expression) -> tuple[str, int] | None:
    match test:
        case Binary("=", Name(name), IntLiteral(value)) | Binary("=", IntLiteral(value), Name(name)):
            return name, value
        case Unary("¬", Name(name)):
            return name, 0
        case Name(name):
            return name, 1
        case _:
            return None


def _constant_bits(value: Expression, field: Field, kind: Kind) -> int | None:
    match value:
        case BoolLiteral(truth) if kind is Kind.BOOL:
            return int(truth)
        case IntLiteral(number) if kind is Kind.INT and 0 <= number - field.lower <= field.range:
            return number - field.lower
        case RealLiteral() | IntLiteral() | _:
            return None


@dataclass(frozen=True, slots=True)
class _Traits:
    """What decides whether an edge can take the fast path: what it reads and writes at which index."""

    reads: frozenset[tuple[int, str]]
    writes: frozenset[tuple[int, str]]
    delicate: bool  # reads scratch again, or may write a variable twice

    @classmethod
    def of(cls, edge: NetworkEdge, slots: dict[str, int], variables: int) -> _Traits:
        """Return the traits of an edge."""
        reads: set[tuple[int, str]] = set()
        writes: set[tuple[int, str]] = set()
        delicate = False
        for branch in edge.branches:
            mine: set[str] = set()
            for update in branch.updates:
                cells = _cells(update.target) if isinstance(update.target, Select) else [update.target.name]
                delicate = delicate or bool(mine & set(cells))
                mine |= set(cells)
                read = names(update.value)
                if isinstance(update.target, Select):
                    for index in update.target.indices:
                        read |= names(index)
                    delicate = delicate or any(slots[cell] >= variables for cell in cells)
                delicate = delicate or any(slots[name] >= variables for name in read)
                reads |= {(update.index, name) for name in read}
                writes |= {(update.index, name) for name in cells}
        return cls(frozenset(reads), frozenset(writes), delicate)


def _needs_care(participants: Sequence[Sequence[int]], traits: Sequence[_Traits]) -> bool:
    """Whether the order of assignments matters: a later one reads an earlier one, or two write the same variable."""
    written: dict[str, set[int]] = defaultdict(set)  # variable -> the indices at which some edge writes it
    reads: set[tuple[int, str]] = set()
    for edges in participants:
        mine: dict[str, set[int]] = defaultdict(set)
        for edge in edges:
            if traits[edge].delicate:
                return True
            reads |= traits[edge].reads
            for index, name in traits[edge].writes:
                mine[name].add(index)
        if any(name in written for name in mine):
            return True
        written.update(mine)
    # SOUND: where nothing written earlier is read later and every variable is written by one participant, all assignments
    # may read the state before the step and be made in any order.
    return any(index > earlier for index, name in reads for earlier in written.get(name, ()))
