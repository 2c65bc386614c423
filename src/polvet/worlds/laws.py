"""What every world format must obey, tried on one of its worlds: the law for formats of one's own.

A format knows its own files and no others, whatever they are called; reads them alike each time, as a model that is well formed, runs, and
survives being written as JANI; its conditions and inputs are ones of that model; and damaged files are answered with an InputError.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from polvet.choices import BrokenLaw
from polvet.errors import InputError, ModelError, Where
from polvet.jani.documents import parse_document
from polvet.jani.read import parse_model
from polvet.jani.write import dump_model
from polvet.model.instantiate import instantiate
from polvet.model.network import Network
from polvet.model.semantics import Semantics
from polvet.model.task import ROLES, condition
from polvet.model.wellformed import check_model
from polvet.model.world import World, WorldFile, WorldFormat
from polvet.worlds.formats import FORMATS

FOREIGN = (
    "", "\n\n", "{", "[1, 2]", '{"jani-version": 1}', '{"learner": {}}', '{"format": "table/1"}', "(define (problem p))",
    "; a comment\n(define (domain d))", "mdp\nmodule m\n", "// a comment\nconst int N;\n", "tree\nversion=v4\n", "\x00\x01", "s,a,t\n",
)  # fmt: skip
"""Beginnings of files that are no format's but polvet's own, or nobody's."""
DAMAGES, STEPS = 60, 200


def check_world_format(
    tried: WorldFormat, path: str | Path, *, domain: str | Path | None = None, seed: int = 0
) -> tuple[BrokenLaw, ...]:
    """Return the laws that the format breaks on this world of its own (a file, or an address); empty means that none was seen broken.

    The model needs values for all its constants.
    """
    rng = random.Random(seed)
    file = WorldFile(path, None if domain is None else Path(domain))
    broken = list(_telling_laws(tried))
    broken += (
        _address_laws(tried) if tried.is_address else [*_content_laws(tried, file), *_damage_laws(tried, file, rng)]
    )
    try:
        world = tried.read(file)
        check_model(world.model)
        network = instantiate(world.model)
    except Exception as error:  # whatever another's code raises is what is looked for
        return (*broken, BrokenLaw(f"it does not read its own world: {type(error).__name__}: {error}"))
    broken += _reading_laws(tried, file, world, network)
    broken += _running_laws(network, rng)
    return tuple(broken)


def _telling_laws(tried: WorldFormat) -> Iterator[BrokenLaw]:
    if not all((tried.name, tried.help, tried.told_by)) or "\n" in tried.help:
        yield BrokenLaw("it does not say in a line each what it is and what tells it")
    if not all(suffix.startswith(".") and suffix == suffix.lower() for suffix in tried.suffixes):
        yield BrokenLaw("its endings are not of the form .world")


def _address_laws(tried: WorldFormat) -> Iterator[BrokenLaw]:
    for rest in ("", "?", "no such world?", "no such world?=&=", "\x00"):
        answer = _outcome(lambda rest=rest: tried.read(WorldFile(f"{tried.name}:{rest}")))  # type: ignore[misc]
        if answer not in (True, False):
            yield BrokenLaw(f"the address '{tried.name}:{rest}' ends in {answer}")


def _content_laws(tried: WorldFormat, file: WorldFile) -> Iterator[BrokenLaw]:
    data = file.path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        renamed = Path(folder) / "any name"
        renamed.write_bytes(data)
        if not tried.detects(file) or not tried.detects(WorldFile(renamed)):
            yield BrokenLaw("it does not know its own file by the content")
        for own in FORMATS.values():
            if own is not tried and own.detects(file):
                yield BrokenLaw(f"its file is one of polvet's format '{own.name}', which is asked first")
        for text in FOREIGN:
            foreign = Path(folder) / f"foreign{file.path.suffix}"
            foreign.write_text(text, encoding="utf-8")
            answer = _outcome(lambda path=foreign: tried.detects(WorldFile(path)))  # type: ignore[misc]
            if answer is not False:
                words = "takes it for its own" if answer is True else f"answers {answer}"
                yield BrokenLaw(f"asked about the foreign content {text[:24]!r} it {words}")


def _damage_laws(tried: WorldFormat, file: WorldFile, rng: random.Random) -> Iterator[BrokenLaw]:
    data = file.path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(DAMAGES if data else 0):
            damaged, place = bytearray(data), rng.randrange(len(data))
            if rng.random() < 0.5:
                damaged[place] = rng.randrange(256)
            else:
                del damaged[place:]
            copy = WorldFile(Path(folder) / file.path.name, file.domain or _domain(tried, file.path))
            copy.path.write_bytes(bytes(damaged))
            answer = _outcome(lambda copy=copy: tried.detects(copy) and bool(tried.read(copy)))  # type: ignore[misc]
            if answer not in (True, False):
                yield BrokenLaw(f"a file damaged at byte {place} ends in {answer}")
                return


def _domain(tried: WorldFormat, path: Path) -> Path | None:
    return None if tried.domain is None else tried.domain(path)


def _outcome(question: Callable[[], Any]) -> Any:
    """Return whether the answer is yes; an InputError means no, and any other error is told."""
    try:
        return bool(question())
    except InputError:
        return False
    except Exception as error:  # whatever another's code raises is what is looked for
        return f"{type(error).__name__}: {error}"


def _reading_laws(tried: WorldFormat, file: WorldFile, world: World, network: Network) -> Iterator[BrokenLaw]:
    text = dump_model(world.model)
    if dump_model(tried.read(WorldFile(file.path, file.domain)).model) != text:
        yield BrokenLaw("the same world gives another model the second time")
    try:
        again = instantiate(parse_model(parse_document(text, Where("JANI")), Where("JANI")))
    except InputError as error:
        yield BrokenLaw(f"written as JANI it is not read again: {error}")
    else:
        if (again.variables, again.labels) != (network.variables, network.labels):
            yield BrokenLaw("written as JANI it has other variables or labels")
    for role, given in world.conditions.items():
        if role not in ROLES:
            yield BrokenLaw(f"there is no role '{role}': there are {', '.join(ROLES)}")
            continue
        try:
            _understand(world, network, given, Where(role))
        except InputError as error:
            yield BrokenLaw(f"its own condition is not understood: {error}")
    for name in world.inputs or ():
        if name not in network.scope.names:
            yield BrokenLaw(f"its policies would read '{name}', which is no variable")


def _understand(world: World, network: Network, text: str, where: Where) -> None:
    """Read the condition over the model, or find the property that it names; an InputError says what is wrong."""
    name = text.removeprefix("property:")
    if name == text:
        condition(network, world.condition(text, where), where)
    elif world.model.property_named(name) is None:
        raise InputError(f"the model has no property '{name}'.", where, "Name one that it has.")


def _running_laws(network: Network, rng: random.Random) -> Iterator[BrokenLaw]:
    """Take random steps: no rule of models is broken on the way (bounds, distributions, arithmetic)."""
    semantics = Semantics(network)
    try:
        state = first = next(iter(semantics.initial_states()), None)
        if first is None:
            yield BrokenLaw("the model has no initial state")
            return
        for _ in range(STEPS):
            assert state is not None
            outcomes = [one.state for move in semantics.moves(state) for one in move.outcomes]
            state = rng.choice(outcomes) if outcomes else first
    except ModelError as error:
        yield BrokenLaw(f"a run of the model breaks a rule: {error}")
