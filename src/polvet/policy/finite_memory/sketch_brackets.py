"""Sketches in brackets, the spelling of learned policies: `(:policy (:booleans ...) (:numericals ...) (:rule ...))`.

Also read: the older `(:boolean_features "b_empty(...)")`, whose features are numbered, each kind on its own; and
`(:extended_sketch ...)` with memory states, registers and rules that load, call, act or search.

What a rule leaves out. A feature that the effects of a `:rule`, `:search_rule`, `:action_rule` or `:call_rule` do not
name may change in any way: `(:e_n_bot n)` is how they say that it stays. A `:load_rule` changes the memory and a register
and not the world, so a feature changes, in any way, only if its meaning speaks of that register, or if it has none.
A concept counts as the number of its objects. Calls are taken to end: what they change is what the rule says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from polvet.errors import InputError, Where, suggest
from polvet.policy.finite_memory.brackets import Group, Leaf, read_groups
from polvet.policy.finite_memory.features import ANY, DOWN, FALSE, NOT_DOWN, NOT_UP, TRUE, UP, Features, Rule

SAME = "same"  # only here: what a rule's changes leave out keeps its value
KINDS = ("boolean", "numerical", "concept")
SECTIONS = {
    ":booleans": "boolean",
    ":numericals": "numerical",
    ":concepts": "concept",
    ":boolean_features": "boolean",
    ":numerical_features": "numerical",
    ":concept_features": "concept",
}
RULES = (":rule", ":search_rule", ":load_rule", ":call_rule", ":action_rule")
CONDITIONS = {
    ":c_b_pos": ("boolean", True),
    ":c_b_neg": ("boolean", False),
    ":c_n_gt": ("numerical", True),
    ":c_n_eq": ("numerical", False),
    ":c_c_gt": ("concept", True),
    ":c_c_eq": ("concept", False),
}
EFFECTS = {
    ":e_b_pos": ("boolean", TRUE),
    ":e_b_neg": ("boolean", FALSE),
    ":e_b_bot": ("boolean", SAME),
    ":e_n_inc": ("numerical", UP),
    ":e_n_dec": ("numerical", DOWN),
    ":e_n_bot": ("numerical", SAME),
    ":e_n_inc_bot": ("numerical", NOT_DOWN),
    ":e_n_dec_bot": ("numerical", NOT_UP),
    ":e_c_inc": ("concept", UP),
    ":e_c_dec": ("concept", DOWN),
    ":e_c_bot": ("concept", SAME),
    ":e_c_inc_bot": ("concept", NOT_DOWN),
    ":e_c_dec_bot": ("concept", NOT_UP),
}
AFTERWARDS = {
    ":e_n_gt": ("numerical", True),
    ":e_n_eq": ("numerical", False),
    ":e_c_gt": ("concept", True),
    ":e_c_eq": ("concept", False),
}
Value = TypeVar("Value", bool, str)
NAME = re.compile(r"[A-Za-z_][\w-]*|\d+")
_START = re.compile(r"(?:\s|[;#][^\n]*(?:\n|$))*\(\s*:(policy|extended_sketch|module)\b")


def is_bracketed(text: str) -> bool:
    """Return whether the text begins as a sketch in brackets."""
    return _START.match(text) is not None


@dataclass(frozen=True, slots=True)
class _Declarations:
    """What a file declares: features by kind and key, registers, memory states."""

    features: Features
    keys: Mapping[tuple[str, str], str]  # kind and key to the feature's name
    registers: tuple[str, ...]
    memory: tuple[str, ...]

    def feature(self, kind: str, group: Group) -> int:
        """Return the index of the one feature that the group names."""
        words = group.words()
        if len(words) != 1:
            raise InputError(f"'{group.head}' names {len(words)} features.", group.where, "Name one.")
        name = self.keys.get((kind, words[0].text))
        if name is None:
            known = [key for of, key in self.keys if of == kind]
            raise InputError(f"no {kind} feature '{words[0].text}'.", words[0].where, suggest(words[0].text, known))
        return self.features.names.index(name)

    def state(self, group: Group) -> str:
        """Return the memory state that the group names."""
        words = group.words()
        if len(words) != 1 or words[0].text not in self.memory:
            phrase = " ".join(word.text for word in words)
            raise InputError(f"no memory state '{phrase}'.", group.where, suggest(phrase, self.memory))
        return words[0].text


def read_bracketed(text: str, where: Where) -> tuple[Features, tuple[Rule, ...], tuple[str, ...]]:
    """Return features, rules and memory states (the initial one first), or raise an InputError with line and column."""
    groups = read_groups(text, where)
    if len(groups) != 1:
        raise InputError(
            f"{len(groups)} sketches or modules stand here.",
            groups[1].where,
            "Give each a file of its own; calls count as steps.",
        )
    body = groups[0]
    if body.head == ":module":
        inner = [part for part in body.groups() if part.head == ":extended_sketch"]
        if len(inner) != 1:
            raise InputError("a module has one (:extended_sketch ...).", body.where, "Write it.")
        body = inner[0]
    sections = body.groups()
    known = (*SECTIONS, *RULES, ":memory_states", ":initial_memory_state", ":registers", ":roles")
    for section in sections:
        if section.head not in known:
            raise InputError(f"'({section.head}' is not known here.", section.where, suggest(section.head, known))
    declarations = _declarations(sections)
    rules = tuple(
        _rule(section, declarations, number)
        for number, section in enumerate(section for section in sections if section.head in RULES)
    )
    if not rules:
        raise InputError("the sketch has no rules.", body.where, "Write (:rule (:conditions ...) (:effects ...)).")
    return declarations.features, rules, declarations.memory


def _declarations(sections: tuple[Group, ...]) -> _Declarations:
    keys: dict[tuple[str, str], str] = {}
    meanings: dict[str, str] = {}
    numeric: set[str] = set()
    for kind, key, name, meaning in _features(sections):
        if name.text in meanings:
            raise InputError(f"the feature '{name.text}' is named twice.", name.where, "Rename one of them.")
        keys[kind, key] = name.text
        meanings[name.text] = meaning
        if kind != "boolean":
            numeric.add(name.text)
    memory = _words(sections, ":memory_states")
    initial = _words(sections, ":initial_memory_state")
    if memory and (len(initial) != 1 or initial[0] not in memory):
        raise InputError(
            "one of the memory states is the initial one.", sections[0].where, "Write (:initial_memory_state m0)."
        )
    ordered = (*initial, *(state for state in memory if state not in initial)) or ("",)
    features = Features(tuple(meanings), frozenset(numeric), meanings)
    return _Declarations(features, keys, _words(sections, ":registers"), ordered)


def _features(sections: tuple[Group, ...]) -> Iterator[tuple[str, str, Leaf, str]]:
    """Yield each feature's kind, key, name and meaning; a feature without a key is known by its number."""
    for section in sections:
        kind = SECTIONS.get(section.head)
        if kind is None:
            continue
        for number, item in enumerate(section.items[1:]):
            if isinstance(item, Leaf) and item.quoted:
                yield kind, str(number), Leaf(f"{kind[0]}{number}", item.where), item.text
                continue
            parts = item.items if isinstance(item, Group) else ()
            if len(parts) != 2 or any(isinstance(part, Group) for part in parts):
                raise InputError(
                    f"a {kind} feature is a name and its meaning.", item.where, 'Write (n0 "n_count(...)").'
                )
            key, meaning = (part for part in parts if isinstance(part, Leaf))
            if not NAME.fullmatch(key.text) or not meaning.quoted:
                raise InputError(f"'{key.text}' is no feature's name.", key.where, 'Write (n0 "n_count(...)").')
            name = Leaf(f"{kind[0]}{key.text}" if key.text.isdigit() else key.text, key.where)
            yield kind, key.text, name, meaning.text


def _words(sections: tuple[Group, ...], head: str) -> tuple[str, ...]:
    words = [word for section in sections if section.head == head for word in section.words()]
    for index, word in enumerate(words):
        if not NAME.fullmatch(word.text) or word.text in [other.text for other in words[:index]]:
            raise InputError(f"'{word.text}' is no name, or stands twice in '({head}'.", word.where, "Rename it.")
    return tuple(word.text for word in words)


def _rule(section: Group, declarations: _Declarations, number: int) -> Rule:
    parts = section.groups()
    if [part.head for part in parts] != [":conditions", ":effects"]:
        raise InputError(
            "a rule has conditions and effects.", section.where, "Write (:rule (:conditions ...) (:effects ...))."
        )
    condition: dict[int, bool] = {}
    memory = following = None
    for group in parts[0].groups():
        if group.head == ":memory":
            memory = _agreement(memory, declarations.state(group), group)
            continue
        kind, value = _meaning_of(group, CONDITIONS, "condition")
        index = declarations.feature(kind, group)
        condition[index] = _agreement(condition.get(index), value, group)
    effects: dict[int, str] = {}
    after: dict[int, bool] = {}
    numbers: list[int] = []
    actions: list[str] = []
    has_objects = False
    for group in parts[1].groups():
        if group.head == ":memory":
            following = _agreement(following, declarations.state(group), group)
        elif group.head == ":load" and section.head == ":load_rule":
            numbers.append(_register(group, declarations))
        elif group.head == ":action" and section.head == ":action_rule":
            actions += [item.text.lower() for item in group.items[1:2] if isinstance(item, Leaf)]
            has_objects = has_objects or len(group.items) > 2
        elif group.head == ":call" and section.head == ":call_rule":
            continue  # whatever it does to the features is what the other effects say
        elif group.head in AFTERWARDS:
            kind, value = AFTERWARDS[group.head]
            index = declarations.feature(kind, group)
            after[index] = _agreement(after.get(index), value, group)
        else:
            kind, change = _meaning_of(group, EFFECTS, "effect")
            index = declarations.feature(kind, group)
            if index in effects:
                raise InputError(
                    f"the effects change '{declarations.features.names[index]}' twice.", group.where, "Remove one."
                )
            effects[index] = change
    for index, name in enumerate(declarations.features.names):
        if section.head != ":load_rule" or _speaks_of(declarations.features.meanings[name], numbers):
            effects.setdefault(index, ANY)
    changes = {index: change for index, change in effects.items() if change != SAME}
    kind = section.head.removeprefix(":").removesuffix("rule").removesuffix("_") or "rule"
    label = f"{kind} {number}"
    kind = "action with objects" if has_objects else kind
    return Rule((condition,), changes, label, memory, following, after, tuple(actions), kind)


def _agreement(earlier: Value | None, value: Value, group: Group) -> Value:
    """Return the value, which a rule may say twice, but not otherwise."""
    if earlier not in (None, value):
        raise InputError("the rule contradicts itself here.", group.where, "Remove one of the two.")
    return value


def _register(group: Group, declarations: _Declarations) -> int:
    """Return the number of the register that `(:load (r0 C))` loads."""
    words = group.words()
    if len(words) != 2 or words[0].text not in declarations.registers:
        raise InputError("a load names a register and a concept.", group.where, "Write (:load (r0 C)).")
    if ("concept", words[1].text) not in declarations.keys:
        known = [key for kind, key in declarations.keys if kind == "concept"]
        raise InputError(f"no concept '{words[1].text}'.", words[1].where, suggest(words[1].text, known))
    return declarations.registers.index(words[0].text)


def _speaks_of(meaning: str, registers: list[int]) -> bool:
    mentions = re.findall(r"\bc_register\(\s*(\d+)\s*\)", meaning)
    return (
        not meaning or any(int(number) in registers for number in mentions) or len(mentions) < meaning.count("register")
    )


def _meaning_of(group: Group, table: Mapping[str, tuple[str, Value]], what: str) -> tuple[str, Value]:
    if group.head not in table:
        raise InputError(f"no {what} '{group.head}'.", group.where, suggest(group.head, table))
    return table[group.head]
