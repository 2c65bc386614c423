"""From a `Network` to a program of the kernel.

Joints are sorted by label, so that the moves of a state come grouped by what a policy chooses; silent ones come last.
The edges of all joints' first participants share one decision tree on equality tests (`SWITCH`); the edges of further
participants are looked at only where the first one moves.

Fast path    updates read the state's registers and write the packed successor at once: all assignments have one index.
Careful path several indices, possible double writes, or transient variables read again: slots are written beside, one
             index at a time, and packed at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.errors import InputError
from polvet.kernel.assemble import Assembler
from polvet.kernel.layout import Field, lay_out
from polvet.model.automata import ModelType
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
    names,
)  # fmt: skip
from polvet.model.folding import value_of
from polvet.model.network import Branch, Kind, Network, NetworkEdge, Update

MAX_SWITCH_RANGE = 4096
TREE_GROWTH = 6  # the decision tree may repeat edges up to this many times their number


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
    disable_out_of_bounds: bool = False,
) -> dict[str, Any]:
    """Return the program as the plain data that `_core.Program.make` takes."""
    return _Lowering(network).program(conditions, rewards, disable_out_of_bounds)


class _Lowering:
    def __init__(self, network: Network) -> None:
        self.network = network
        slots = (*network.variables, *network.scratch)
        self.slots = {variable.name: i for i, variable in enumerate(slots)}
        self.variables = {variable.name: variable for variable in slots}
        self.fields, self.words = lay_out(network.variables)
        self.out = Assembler(self.slots, {variable.name: variable.kind for variable in slots})
        self.masks: dict[int, int] = {}
        self.jumps: list[tuple[int, list[int], int]] = []
        self.branches: list[tuple[float, int, int, int, int]] = []
        self.careful: list[tuple[int, int]] = []
        for variable in network.scratch:
            value = variable.initial
            assert value is not None
            register = self.out.constant(float(value) if variable.kind is Kind.REAL else int(value))
            self.out.registers[self.slots[variable.name]] = self.out.registers[register]

    def program(
        self, conditions: Sequence[Expression], rewards: Sequence[Reward], disable_out_of_bounds: bool
    ) -> dict[str, Any]:
        network, out = self.network, self.out
        order = {label: i for i, label in enumerate(network.labels)}
        joints = sorted(network.joints, key=lambda joint: order.get(joint.label or "", len(order)))
        joints = [joint for joint in joints if joint.label is not None] + [j for j in joints if j.label is None]
        traits = [_Traits.of(edge, self.slots, len(network.variables)) for edge in network.edges]
        is_careful = [_needs_care(joint.participants, traits) for joint in joints]
        used: dict[int, set[bool]] = defaultdict(set)
        for joint, careful in zip(joints, is_careful, strict=True):
            for edges in joint.participants:
                for edge in edges:
                    used[edge].add(careful)
        wanted = {name for reward in rewards if reward.per_step is not None for name in names(reward.per_step)}
        edge_rows = [self._edge(edge, used.get(i, set()), wanted) for i, edge in enumerate(network.edges)]

        menus: list[int] = []
        rows = []
        leads: list[_Item] = []
        for number, (joint, careful) in enumerate(zip(joints, is_careful, strict=True)):
            leads += self._items(number, joint.participants[0])
            begin = len(menus)
            for edges in joint.participants[1:]:
                menus.append(self._menu(self._items(number, edges)))
            rows.append((order[joint.label] if joint.label is not None else -1, careful, begin, len(menus)))
        lead = self._menu(leads)
        entries = [self._truth(condition) for condition in conditions]
        per_state = [-1 if one.per_state is None else self._real(one.per_state) for one in rewards]
        per_step = [-1 if one.per_step is None else self._real(one.per_step) for one in rewards]
        reads_state = [
            int(one.per_step is not None and bool(names(one.per_step) & {v.name for v in network.variables}))
            for one in rewards
        ]
        return {
            "code": np.array(out.code, dtype=np.int32).reshape(-1, 4),
            "registers": out.registers,
            "words": self.words,
            "variables": len(network.variables),
            "slots": len(self.slots),
            "masks": list(self.masks),
            "fields": [field.as_tuple() for field in self.fields],
            "scratch_bounds": [lay_out((variable,))[0][0].as_tuple() for variable in network.scratch],
            "jumps": self.jumps,
            "tables": out.tables,
            "edges": edge_rows,
            "branches": self.branches,
            "careful": self.careful,
            "joints": rows,
            "menus": menus,
            "unpacked": sorted(slot for slot in out.read if slot < len(network.variables)),
            "lead": lead,
            "conditions": entries,
            "state_rewards": per_state,
            "step_rewards": per_step,
            "step_reads_state": reads_state,
            "disable_out_of_bounds": disable_out_of_bounds,
            "uniform": network.model.type is ModelType.DTMC,
        }

    # -- conditions and rewards

    def _truth(self, condition: Expression) -> int:
        entry = self.out.here
        fails = self.out.unless(condition)
        self.out.emit("RET", self.out.constant(1))
        self.out.land(fails)
        self.out.emit("RET", self.out.constant(0))
        return entry

    def _real(self, expression: Expression) -> int:
        entry = self.out.here
        self.out.emit("RET", self.out.value(expression, Kind.REAL))
        return entry

    # -- guards

    def _items(self, joint: int, edges: Iterable[int]) -> list[_Item]:
        return [_Item(joint, edge, tuple(conjuncts(self.network.edges[edge].guard))) for edge in edges]

    def _menu(self, items: list[_Item]) -> int:
        """Emit code that names every item whose tests hold, in the items' order."""
        self._budget = TREE_GROWTH * len(items) + 256
        return self._tree(items)

    def _tree(self, items: list[_Item]) -> int:
        split = self._best_split(items)
        if split is None:
            return self._leaf(items)
        variable, by_value, rest = split
        values = sorted(by_value)
        base, span = values[0], values[-1] - values[0] + 1
        switch = len(self.jumps)
        self.jumps.append((base, [], 0))
        entry = self.out.emit("SWITCH", self.out.value(variable), switch)
        otherwise = self._tree(rest)
        targets = [otherwise] * span
        for value in values:
            mine = by_value[value]
            merged = sorted(
                (*mine, *((i, item) for i, item in enumerate(items) if item in rest)), key=lambda pair: pair[0]
            )
            targets[value - base] = self._tree([item for _, item in merged])
        self.jumps[switch] = (base, targets, otherwise)
        return entry

    def _best_split(self, items: list[_Item]) -> tuple[Name, dict[int, list[tuple[int, _Item]]], list[_Item]] | None:
        counts: Counter[str] = Counter()
        tested: list[dict[str, tuple[int, int]]] = []  # per item: variable -> (value, which test)
        values: dict[str, set[int]] = defaultdict(set)
        for item in items:
            found: dict[str, tuple[int, int]] = {}
            for place, test in enumerate(item.tests):
                equality = _equality(test)
                if equality is not None and equality[0] not in found:
                    found[equality[0]] = equality[1], place
            tested.append(found)
            counts.update(found.keys())
            for name, (value, _) in found.items():
                values[name].add(value)
        best = None
        for name, count in counts.most_common(8):
            different = values[name]
            if len(different) < 2 or count < 3 or max(different) - min(different) >= MAX_SWITCH_RANGE:
                continue
            cost = (len(items) - count) * (len(different) + 1) + count
            score = count * (1 - 1 / len(different)) - (cost - len(items)) / 8
            if score > 0 and cost <= self._budget and (best is None or score > best[0]):
                best = score, name, cost
        if best is None:
            return None
        _, name, cost = best
        self._budget -= cost - len(items)
        by_value: dict[int, list[tuple[int, _Item]]] = defaultdict(list)
        rest = []
        for number, (item, found) in enumerate(zip(items, tested, strict=True)):
            if name in found:
                value, place = found[name]
                remaining = item.tests[:place] + item.tests[place + 1 :]
                by_value[value].append((number, _Item(item.joint, item.edge, remaining)))
            else:
                rest.append(item)
        return Name(name), by_value, rest

    def _leaf(self, items: list[_Item]) -> int:
        entry = self.out.here
        for item in items:
            fails = [jump for test in item.tests for jump in self.out.unless(test)]
            self.out.emit("EMIT", item.joint, item.edge)
            self.out.land(fails)
        self.out.emit("HALT")
        return entry

    # -- updates

    def _edge(self, edge: NetworkEdge, used: set[bool], wanted: set[str]) -> tuple[int, int]:
        begin = len(self.branches)
        for branch in edge.branches:
            try:
                self.branches.append(self._branch(branch, used, wanted))
            except InputError as error:
                raise InputError(error.what, edge.where, error.hint) from None
        return begin, len(self.branches)

    def _branch(self, branch: Branch, used: set[bool], wanted: set[str]) -> tuple[float, int, int, int, int]:
        known = value_of(branch.probability)
        code = -1 if known is not None else self._real(branch.probability)
        fast = self._fast(branch.updates, wanted) if False in used else -1
        begin = len(self.careful)
        if True in used:
            for index in sorted({update.index for update in branch.updates}):
                self.careful.append((index, self._put([u for u in branch.updates if u.index == index])))
        return float(known or 0), code, fast, begin, len(self.careful)

    def _mask(self, bits: int) -> int:
        return self.masks.setdefault(bits, len(self.masks))

    def _fast(self, updates: Sequence[Update], wanted: set[str]) -> int:
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
    """What decides whether an edge can take the fast path."""

    indices: frozenset[int]
    writes: frozenset[str]
    delicate: bool  # reads scratch again, or may write a variable twice

    @classmethod
    def of(cls, edge: NetworkEdge, slots: dict[str, int], variables: int) -> _Traits:
        indices: set[int] = set()
        writes: set[str] = set()
        delicate = False
        for branch in edge.branches:
            mine: set[str] = set()
            for update in branch.updates:
                indices.add(update.index)
                cells = _cells(update.target) if isinstance(update.target, Select) else [update.target.name]
                delicate = delicate or bool(mine & set(cells))
                mine |= set(cells)
                read = names(update.value)
                if isinstance(update.target, Select):
                    for index in update.target.indices:
                        read |= names(index)
                    delicate = delicate or any(slots[cell] >= variables for cell in cells)
                delicate = delicate or any(slots[name] >= variables for name in read)
            writes |= mine
        return cls(frozenset(indices), frozenset(writes), delicate)


def _needs_care(participants: Sequence[Sequence[int]], traits: Sequence[_Traits]) -> bool:
    indices: set[int] = set()
    written: set[str] = set()
    for edges in participants:
        mine: set[str] = set()
        for edge in edges:
            if traits[edge].delicate:
                return True
            indices |= traits[edge].indices
            mine |= traits[edge].writes
        if written & mine:
            return True
        written |= mine
    return len(indices) > 1
