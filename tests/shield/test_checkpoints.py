"""The callback against the command line's way: the archive it keeps has the faults that it counted."""

import json
import warnings
from pathlib import Path

import pytest

from polvet.debug.faults import all_faults
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.safety.decide import Decider

pytest.importorskip("stable_baselines3")
gymnasium = pytest.importorskip("gymnasium")
from examples.shielded_ppo import ice  # noqa: E402

from polvet.shield.checkpoints import FaultsPerCheckpoint  # noqa: E402
from polvet.shield.gym import model_env  # noqa: E402


@pytest.mark.slow
def test_each_checkpoint_holds_the_number_of_all_faults_of_its_archive(tmp_path: Path) -> None:
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    task = ice().model_task
    callback = FaultsPerCheckpoint(task, every=256, folder=tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = PPO("MlpPolicy", model_env(task, max_steps=100), n_steps=128, batch_size=64, n_epochs=2, seed=0,
                    device="cpu", policy_kwargs={"activation_fn": torch.nn.ReLU})  # fmt: skip
        agent.learn(total_timesteps=640, callback=callback)
    assert [one.steps for one in callback.checkpoints] == [256, 512, 640]
    lines = [json.loads(line) for line in (tmp_path / "checkpoints.jsonl").read_text().splitlines()]
    for one, line in zip(callback.checkpoints, lines, strict=True):
        assert one.exhaustive
        assert one.archive is not None
        assert (line["steps"], line["faults"]) == (one.steps, one.faults)
        fitted = load_fitted(task, one.archive)
        # The ice has a fault wherever the policy is fast near a hole.
        (x,) = (k for k, variable in enumerate(task.network.variables) if variable.name == "x")
        faults = all_faults(compile_policy(fitted), Decider(task)).faults
        assert one.faults == len(faults)
        assert all(fault.state[x] % 3 == 2 for fault in faults)
