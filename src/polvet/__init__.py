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
    from polvet.front.certifying import certify
    from polvet.front.deciding import Decisions, GoalReaching
    from polvet.front.describing import info
    from polvet.front.gating import gate
    from polvet.front.general import Generalizing, Refuted, generalizes
    from polvet.front.learning import LearnedScheduler
    from polvet.front.loading import from_gym, from_intervals, from_matrix, from_transitions, load
    from polvet.front.plans import GoalMissed, Nonterminating, Terminating, terminates
    from polvet.front.policy import Policy
    from polvet.front.region import SafeRegion
    from polvet.front.result import Run
    from polvet.front.results import (
        Accepted,
        Comparison,
        Description,
        Evaluation,
        Exploration,
        Fault,
        Faults,
        Fence,
        Fuzzing,
        Gate,
        Impossible,
        Rejected,
        Repair,
        Safe,
        Simulation,
        Training,
        Unknown,
        Unsafe,
        Value,
    )
    from polvet.front.shield import Shield
    from polvet.front.synthesizing import Solved, Unsolvable, synthesize
    from polvet.front.task import Task
    from polvet.model.automata import Model
    from polvet.model.build import ModelBuilder
    from polvet.verdict import Verdict

__version__ = "0.2.0"

_HOMES = {
    "polvet.errors": ("InputError", "LimitReached", "MissingExtra", "ModelError", "PolvetError"),
    "polvet.front.campaign": ("Campaign",),
    "polvet.front.certifying": ("certify",),
    "polvet.front.deciding": ("Decisions", "GoalReaching"),
    "polvet.front.describing": ("info",),
    "polvet.front.gating": ("gate",),
    "polvet.front.general": ("Generalizing", "Refuted", "generalizes"),
    "polvet.front.loading": ("Model", "from_gym", "from_intervals", "from_matrix", "from_transitions", "load"),
    "polvet.front.plans": ("GoalMissed", "Nonterminating", "Terminating", "terminates"),
    "polvet.front.policy": ("Policy",),
    "polvet.front.region": ("SafeRegion",),
    "polvet.front.result": ("Run",),
    "polvet.verdict": ("Verdict",),
    "polvet.front.results": (
        "Accepted", "Comparison", "Description", "Evaluation", "Exploration", "Fault", "Faults", "Fence", "Fuzzing", "Gate",
        "Impossible", "Rejected", "Repair", "Safe", "Simulation", "Training", "Unknown", "Unsafe", "Value",
    ),
    "polvet.front.synthesizing": ("Solved", "Unsolvable", "synthesize"),
    "polvet.front.learning": ("LearnedScheduler",),
    "polvet.front.shield": ("Shield",),
    "polvet.front.task": ("Task",),
    "polvet.model.build": ("ModelBuilder",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Accepted", "Campaign", "Comparison", "Decisions", "Description", "Evaluation", "Exploration", "Fault", "Faults",
    "Fence", "Fuzzing", "Gate", "Generalizing", "GoalMissed", "GoalReaching", "Impossible", "InputError", "LearnedScheduler",
    "LimitReached", "MissingExtra", "Model", "ModelBuilder", "ModelError", "Nonterminating", "Policy", "PolvetError",
    "Refuted", "Rejected", "Repair", "Run", "Safe", "SafeRegion", "Shield", "Simulation", "Solved", "Task", "Terminating", "Training",
    "Unknown", "Unsafe", "Unsolvable", "Value", "Verdict",
    "certify", "from_gym", "from_intervals", "from_matrix", "from_transitions", "gate", "generalizes", "info", "load",
    "synthesize", "terminates",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'polvet' has no attribute '{name}'; it offers {', '.join(__all__)}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
