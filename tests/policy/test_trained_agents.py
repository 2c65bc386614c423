"""Agents trained a little by stable-baselines3: verified, debugged, saved, loaded by the library; the same choice in all states."""

import warnings

import numpy as np
import pytest

import polvet
from polvet.domains import generate
from polvet.model.semantics import Semantics
from polvet.policy import near_ties

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")
gym = pytest.importorskip("gymnasium")
torch.set_num_threads(1)

LAKE = "gym:FrozenLake-v1?map_name=8x8&is_slippery=false"
ON_POLICY = {"n_steps": 128, "batch_size": 64, "n_epochs": 2}
AGENTS = {
    "PPO": (sb3.PPO, ON_POLICY), "MaskablePPO": (contrib.MaskablePPO, ON_POLICY),
    "DQN": (sb3.DQN, {"buffer_size": 500, "learning_starts": 50}),
}  # fmt: skip
WORLDS = {"lake": None, "transport": {"locations": 3, "packages": 2}, "janitor": {"width": 3, "height": 3}}


def task_and_environment(world, folder):
    if WORLDS[world] is None:
        return polvet.load(LAKE), gym.make("FrozenLake-v1", map_name="8x8", is_slippery=False)
    _, file = generate(world, **WORLDS[world]).write(folder / f"{world}.jani")
    task = polvet.load(file)
    return task, task.env(max_steps=40)


class Masked(gym.Wrapper):
    """An environment in which everything is applicable, where it does not say so itself."""

    def action_masks(self):
        if hasattr(self.env, "action_masks"):
            return self.env.action_masks()
        return np.ones(self.action_space.n, dtype=bool)


def trained(name, env):
    algorithm, options = AGENTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return algorithm("MlpPolicy", Masked(env), seed=5, device="cpu", **options).learn(256)


def all_states(task):
    """Every state that some policy reaches, with its applicable actions, by the slow interpreter; ends are left out."""
    semantics, given = Semantics(task.model_task.network), task.model_task
    ends = [semantics.compile(condition) for condition in (given.fail, given.goal) if condition is not None]
    waiting = list(semantics.initial_states() if given.start is None else semantics.states_satisfying(given.start))
    seen = dict.fromkeys(waiting)
    while waiting:
        state = waiting.pop()
        if any(end(state) for end in ends):
            continue
        seen[state] = tuple(semantics.applicable(state))
        for label in seen[state]:
            for outcome in semantics.outcomes(state, label):
                if outcome not in seen:
                    seen[outcome] = None
                    waiting.append(outcome)
    return {state: labels for state, labels in seen.items() if labels and None not in labels}


def differing(model, policy, masked):
    """The states in which `predict` chooses otherwise, of those that are no near ties; and how many are."""
    states = all_states(policy.task)
    rows = np.concatenate([policy.fitted.row(state) for state in states])
    masks = np.stack([[name in labels for name in policy.outputs] for labels in states.values()])
    seen = rows if model.observation_space.shape else rows.astype(int).reshape(-1)
    theirs = model.predict(seen, deterministic=True, **({"action_masks": masks} if masked else {}))[0]
    ours = policy.fitted.policy.choose(rows, masks if masked else None)
    ties = near_ties(policy.fitted.policy, rows, masks if masked else None)
    return [state for state, a, b, tie in zip(states, ours, theirs, ties, strict=True) if a != b and not tie], ties


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", AGENTS)
def test_a_trained_agent_is_vetted_mended_and_loaded_again(name, world, tmp_path):
    task, environment = task_and_environment(world, tmp_path)
    task = task.with_mode("filtered" if name == "MaskablePPO" else "raw")
    model = trained(name, environment)
    model.save(tmp_path / "agent.zip")
    policy = task.policy(tmp_path / "agent.zip")
    masked = name == "MaskablePPO"
    wrong, ties = differing(model, policy, masked)
    assert wrong == []
    assert ties.mean() < 0.1
    assert policy.evaluate(runs=20, seed=1).figures
    result = policy.verify(time_limit=60)
    assert result.verdict is not polvet.Verdict.UNKNOWN
    assert polvet.certify(result.certificate, task, policy).accepted
    campaign = policy.debug(tmp_path / "out", iterations=8, seed=1, time_limit=60)
    campaign.policy.save(tmp_path / "better.zip")
    again = type(model).load(tmp_path / "better.zip", device="cpu")
    wrong, ties = differing(again, task.policy(tmp_path / "better.zip"), masked)
    assert wrong == []
    assert ties.mean() < 0.1
    if world == "lake":  # one input per place: the last layer has room for every fault
        assert campaign.verdict is polvet.Verdict.SAFE
