"""Repaired stable-baselines3 policies: saved as an archive that the library loads, whose `predict` chooses as verified."""

import json
import warnings
import zipfile

import numpy as np
import pytest

import polvet
from polvet.errors import InputError
from polvet.policy import load_policy, near_ties, rounding_bounds, save_policy
from polvet.policy.stable_baselines import NORMALIZATION, normalization_of
from tests.repair.test_sklearn import FREE, LABELS, SIZE, failing, grid

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")
gym = pytest.importorskip("gymnasium")
torch.set_num_threads(1)
spaces = gym.spaces

BOX = spaces.Box(0, SIZE - 1, (2,))
MULTI = spaces.MultiDiscrete([SIZE, SIZE])
ALGORITHMS = {
    "PPO": (sb3.PPO, {}), "A2C": (sb3.A2C, {}), "DQN": (sb3.DQN, {"buffer_size": 10}), "TRPO": (contrib.TRPO, {}),
    "QRDQN": (contrib.QRDQN, {"buffer_size": 10, "policy_kwargs": {"n_quantiles": 5}}), "MaskablePPO": (contrib.MaskablePPO, {}),
}  # fmt: skip


class World(gym.Env):
    """Observations at random, four actions."""

    def __init__(self, space):
        self.observation_space, self.action_space = space, spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}

    def action_masks(self):
        return np.ones(4, dtype=bool)


def agent(name, space, env=None, factor=3.0):
    algorithm, options = ALGORITHMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = algorithm("MlpPolicy", env or World(space), seed=3, device="cpu", **options)
    with torch.no_grad():  # untrained actors have nearly equal scores everywhere
        for parameter in model.policy.parameters():
            parameter.mul_(factor)
    return model


def predicted(model, space):
    seen = np.array(FREE, dtype=space.dtype)
    return dict(zip(FREE, model.predict(seen, deterministic=True)[0].tolist(), strict=True))


@pytest.mark.parametrize("space", [BOX, MULTI], ids=["box", "multi-discrete"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_repaired_archive_is_loaded_by_its_library_and_chooses_as_verified(name, space, tmp_path):
    model = agent(name, space)
    model.save(tmp_path / "model.zip")
    policy = grid().policy(tmp_path / "model.zip")
    found = policy.faults()
    assert len(found)
    better = policy.repair(found)
    better.save(tmp_path / "better.zip")
    again = type(model).load(tmp_path / "better.zip", device="cpu")
    chosen = predicted(again, space)
    rows = np.array(FREE, dtype=np.float32)
    clear = ~near_ties(load_policy(tmp_path / "better.zip"), rows)
    assert clear.mean() > 0.9
    acts = [better.act({"x": a, "y": b}) for a, b in FREE]
    assert [act for act, sure in zip(acts, clear, strict=True) if sure] == [
        LABELS[chosen[at]] for at, sure in zip(FREE, clear, strict=True) if sure
    ]
    figures = better.repaired.figures
    assert figures["faults_fixed"] > 0
    assert figures["units_added"] == 0
    left = {(f.state["x"], f.state["y"]) for f in found} if figures["faults_left"] else set()
    for fault in found:
        at = fault.state["x"], fault.state["y"]
        assert at in left or LABELS[chosen[at]] in fault.safe_actions, "what is fixed is no near tie"
    if space is MULTI:  # one input per place: the last layer has room for every fault
        assert figures["faults_left"] == 0
    elif left:
        assert any("save it as .onnx" in reason for reason in better.repaired.left)


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_an_agent_in_memory_is_debugged_to_safe_and_comes_back_as_one(name, tmp_path):
    model = agent(name, MULTI)
    assert failing(predicted(model, MULTI))
    campaign = grid().policy(model).debug(tmp_path / "out", iterations=20, seed=1)
    assert campaign.verdict is polvet.Verdict.SAFE
    better = campaign.policy.object
    assert type(better) is type(model)
    chosen = predicted(better, MULTI)
    assert failing(chosen) == set()
    assert [campaign.policy.act({"x": a, "y": b}) for a, b in FREE] == [LABELS[chosen[at]] for at in FREE]


def test_every_other_member_is_copied_and_nothing_is_unpickled(tmp_path, monkeypatch):
    import pickle

    agent("PPO", BOX).save(tmp_path / "model.zip")

    def never(*arguments, **options):
        raise AssertionError("something was unpickled")

    policy = load_policy(tmp_path / "model.zip")
    monkeypatch.setattr(pickle, "loads", never)
    monkeypatch.setattr(pickle, "load", never)
    save_policy(policy, tmp_path / "again.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as old, zipfile.ZipFile(tmp_path / "again.zip") as new:
        assert old.namelist() == new.namelist()
        assert all(old.read(name) == new.read(name) for name in old.namelist() if name != "policy.pth")
    monkeypatch.undo()
    rows = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    assert np.array_equal(load_policy(tmp_path / "again.zip").scores(rows), policy.scores(rows))


def test_units_have_no_room_in_an_archive_but_in_onnx(tmp_path):
    model = agent("PPO", BOX)
    policy = grid().policy(model)
    found = policy.faults()
    with pytest.raises(InputError, match="no room for units"):
        policy.repair(found, method="units")
    policy.save(tmp_path / "model.onnx")
    free = grid().policy(tmp_path / "model.onnx")
    better = free.repair(free.faults(), method="units")
    assert better.repaired.figures["faults_left"] == 0
    with pytest.raises(InputError, match="does not come from a stable-baselines3 archive"):
        save_policy(load_policy(tmp_path / "model.onnx"), tmp_path / "model.zip")


def normalized_agent(name="PPO"):
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: World(BOX)]), clip_obs=1.25)
    env.obs_rms.mean, env.obs_rms.var = np.array([2.5, 3.75]), np.array([4.3, 1.7])
    return agent(name, BOX, env), env


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_the_statistics_of_vec_normalize_are_part_of_the_policy(name):
    model, env = normalized_agent(name)
    policy = grid().policy(model)
    seen = np.array(FREE, dtype=np.float32)
    theirs = model.predict(env.normalize_obs(seen), deterministic=True)[0]
    clear = ~near_ties(load_policy(policy.file), seen)
    assert clear.mean() > 0.9
    acts = np.array([LABELS.index(policy.act({"x": a, "y": b})) for a, b in FREE])
    assert np.array_equal(acts[clear], theirs[clear])
    assert not np.array_equal(acts, model.predict(seen, deterministic=True)[0]), "they matter"
    found = policy.faults()
    again = policy.repair(found).object
    assert again.get_vec_normalize_env() is env
    fixed = again.predict(env.normalize_obs(seen), deterministic=True)[0]
    better = policy.repair(found)
    sure = ~near_ties(load_policy(better.file), seen)
    acts = np.array([LABELS.index(better.act({"x": a, "y": b})) for a, b in FREE])
    assert np.array_equal(acts[sure], fixed[sure])


def test_normalized_scores_are_within_the_bound_of_torchs(tmp_path):
    model, env = normalized_agent("DQN")
    policy = load_policy(grid().policy(model).file)
    rows = np.random.default_rng(0).uniform(-1, SIZE, (2000, 2)).astype(np.float32)
    with torch.no_grad():
        theirs = model.q_net(torch.as_tensor(env.normalize_obs(rows))).numpy()
    assert (np.abs(theirs.astype(np.float64) - policy.scores(rows)) <= rounding_bounds(policy, rows)).all()


def test_statistics_may_be_written_into_the_archive_and_are_checked(tmp_path):
    model, env = normalized_agent()
    rows = np.array(FREE, dtype=np.float32)
    in_memory = load_policy(grid().policy(model).file).scores(rows)

    def written(text):
        model.save(tmp_path / "model.zip")
        with zipfile.ZipFile(tmp_path / "model.zip", "a") as archive:
            archive.writestr(NORMALIZATION, text)
        return load_policy(tmp_path / "model.zip")

    good = normalization_of(env)
    assert np.array_equal(written(good).scores(rows), in_memory)
    sb3.PPO.load(tmp_path / "model.zip", device="cpu")
    for bad in (
        "[]", "{", json.dumps({**json.loads(good), "mean": [1.0]}), json.dumps({**json.loads(good), "variance": [-1.0, 1.0]}),
        json.dumps({**json.loads(good), "clip": 0}), json.dumps({**json.loads(good), "mean": [1e400, 0]}),
    ):  # fmt: skip
        with pytest.raises(InputError, match="normalization"):
            written(bad)
