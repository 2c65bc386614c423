"""The policies that come with the package: small tasks of the domains, each with a policy trained on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polvet.errors import InputError, did_you_mean

FOLDER = Path(__file__).parent / "policies"


@dataclass(frozen=True, slots=True)
class ShippedPolicy:
    """A task file and a policy file that fit each other."""

    name: str
    task: Path
    policy: Path
    about: str


SHIPPED = {
    name: ShippedPolicy(name, FOLDER / f"{task}.toml", FOLDER / policy, about)
    for name, task, policy, about in (
        ("line-good", "one-way-line-8-5", "one-way-line-8-5-good.json", "trees, safe from every start"),
        ("line-faulty", "one-way-line-8-5", "one-way-line-8-5-faulty.json", "trees taught by a careless teacher"),
        ("bird", "flappy-bird-20-10-3", "flappy-bird-20-10-3.onnx", "a 2x32 network that flies for ever"),
        ("blocks", "blocksworld-4", "blocksworld-4.onnx", "a 2x32 network that builds the tower"),
    )
}


def find_shipped(name: str) -> ShippedPolicy:
    """Return the shipped task and policy of that name."""
    if name not in SHIPPED:
        hint = did_you_mean(name, SHIPPED) or f"There are: {', '.join(SHIPPED)}."
        raise InputError(f"no shipped policy '{name}'.", hint=hint)
    return SHIPPED[name]


def shipped_files() -> list[Path]:
    """Return all files: a model, its task and its policies for each instance."""
    return sorted(file for file in FOLDER.iterdir() if file.suffix in (".jani", ".toml", ".json", ".onnx"))
