"""A property as people ask for it: by its name in the model, or in PRISM's notation over the words of the world it came from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polvet.errors import Where
from polvet.model.expressions import FALSE
from polvet.model.properties import Property
from polvet.model.task import Task, TaskOptions
from polvet.model.wellformed_properties import check_properties
from polvet.model.world import WorldFile
from polvet.sources import find_property, read_parts
from polvet.worlds.formats import format_of

if TYPE_CHECKING:
    from polvet.prism import Vocabulary


def property_of_task(task: Task, text: str) -> Property:
    """Return the property of that name, or the one the text is in PRISM's notation; there `fail` and `goal` are the task's."""
    from polvet.prism.properties import parse_property

    model, where = task.network.model, Where("property")
    if model.property_named(text) is not None or not any(sign in text for sign in "=[]<>"):
        return find_property(model, text, where)
    words = _words_of(task)
    given = {} if task.source is None else read_parts(task.source.file, task.options).conditions
    roles = (("fail", task.fail), ("goal", task.goal))
    # A condition that nobody gave is false, too; who asks about it has forgotten to give it.
    conditions = {name: one for name, one in roles if (one != FALSE or name in given) and name not in words.names}
    words = replace(words, formulas={**conditions, **words.formulas}, names=words.names | conditions.keys())
    one = parse_property(text, words, where)
    check_properties([one], model)
    return one


def _words_of(task: Task) -> Vocabulary:
    """Return the words for properties of the task's model: those of its file, where its format has words of its own."""
    from polvet.prism import vocabulary_of_model

    if task.source is not None:
        file = WorldFile(read_parts(task.source.file, TaskOptions(domain=task.options.domain)).model)
        own = format_of(file).words
        if own is not None:
            words: Vocabulary = own(file)
            return words
    return vocabulary_of_model(task.network.model)
