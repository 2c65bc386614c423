"""polvet vets learned action policies: verdicts with evidence that an independent checker accepts.

    import polvet

    task = polvet.load("task.toml")
    policy = task.policy("policy.onnx")
    result = policy.verify(time_limit=60)
    campaign = policy.debug("folder", time_limit=600)

`__all__` is what is offered; names are imported at first use. Everything else in the package may change from version to version.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polvet.errors import InputError, LimitReached, MissingExtra, ModelError, PolvetError
    from polvet.front.campaign import Campaign
    from polvet.front.loading import certify, from_gym, from_matrix, gate, load, terminates
    from polvet.front.policy import Policy
    from polvet.front.results import (
        Accepted,
        Decisions,
        Evaluation,
        Exploration,
        Fault,
        Faults,
        Gate,
        Impossible,
        Nonterminating,
        Rejected,
        Run,
        Safe,
        Simulation,
        Terminating,
        Unknown,
        Unsafe,
        Value,
        Verdict,
    )
    from polvet.front.shield import LearnedScheduler, Shield
    from polvet.front.task import Task
    from polvet.model.automata import Model
    from polvet.model.build import ModelBuilder

__version__ = "0.2.0"

_HOMES = {
    "polvet.errors": ("InputError", "LimitReached", "MissingExtra", "ModelError", "PolvetError"),
    "polvet.front.campaign": ("Campaign",),
    "polvet.front.loading": ("certify", "from_gym", "from_matrix", "gate", "load", "terminates"),
    "polvet.front.policy": ("Policy",),
    "polvet.front.results": (
        "Accepted", "Decisions", "Evaluation", "Exploration", "Fault", "Faults", "Gate", "Impossible", "Nonterminating",
        "Rejected", "Run", "Safe", "Simulation", "Terminating", "Unknown", "Unsafe", "Value", "Verdict",
    ),
    "polvet.front.shield": ("LearnedScheduler", "Shield"),
    "polvet.front.task": ("Task",),
    "polvet.model.automata": ("Model",),
    "polvet.model.build": ("ModelBuilder",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Accepted", "Campaign", "Decisions", "Evaluation", "Exploration", "Fault", "Faults", "Gate", "Impossible",
    "InputError", "LearnedScheduler", "LimitReached", "MissingExtra", "Model", "ModelBuilder", "ModelError",
    "Nonterminating", "Policy", "PolvetError", "Rejected", "Run", "Safe", "Shield", "Simulation", "Task", "Terminating",
    "Unknown", "Unsafe", "Value", "Verdict", "certify", "from_gym", "from_matrix", "gate", "load", "terminates",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'polvet' has no attribute '{name}'; it offers {', '.join(__all__)}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
