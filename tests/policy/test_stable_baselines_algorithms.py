"""Default policies of stable-baselines3 and sb3-contrib, on every kind of observation: polvet chooses what `predict` chooses."""

import warnings

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.policy import load_policy, near_ties, rounding_bounds
from polvet.policy.unit_graph import UnitGraph

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")
gym = pytest.importorskip("gymnasium")
torch.set_num_threads(1)
spaces = gym.spaces

BOX = spaces.Box(-5, 5, (2, 2))
SPACES = {
    "box": BOX, "discrete": spaces.Discrete(11), "multi-discrete": spaces.MultiDiscrete([3, 4, 2]),
    "multi-binary": spaces.MultiBinary(5),
}  # fmt: skip


class World(gym.Env):
    """Observations at random, three actions."""

    def __init__(self, space):
        self.observation_space, self.action_space = space, spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}

    def action_masks(self):
        return np.ones(3, dtype=bool)


def made(algorithm, space, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return algorithm("MlpPolicy", World(space), seed=3, device="cpu", **options)


def observations(space, count=400):
    space.seed(1)
    return np.stack([space.sample() for _ in range(count)])


CASES = {
    "PPO": (sb3.PPO, {}), "A2C": (sb3.A2C, {}), "DQN": (sb3.DQN, {"buffer_size": 10}), "MaskablePPO": (contrib.MaskablePPO, {}),
    "TRPO": (contrib.TRPO, {"policy_kwargs": {"net_arch": [], "activation_fn": torch.nn.ELU}}),
    "QRDQN": (contrib.QRDQN, {"buffer_size": 10, "policy_kwargs": {"n_quantiles": 7, "activation_fn": torch.nn.Tanh}}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", SPACES)
def test_default_policies_choose_what_the_library_predicts(name, kind, tmp_path):
    algorithm, options = CASES[name]
    space = SPACES[kind]
    model = made(algorithm, space, **options)
    with torch.no_grad():  # untrained actors have nearly equal scores everywhere
        for parameter in model.policy.parameters():
            parameter.mul_(3.0)
    model.save(tmp_path / "model.zip")
    policy = load_policy(tmp_path / "model.zip")
    seen = observations(space)
    theirs, _ = model.predict(seen, deterministic=True)
    rows = seen.astype(np.float32).reshape(len(seen), -1)
    clear = ~near_ties(policy, rows)
    assert clear.mean() > 0.97
    assert np.array_equal(policy.choose(rows)[clear], theirs[clear])


def test_an_actors_scores_are_torchs_logits_within_the_bound_and_its_softmax_is_known(tmp_path):
    model = made(sb3.PPO, BOX)
    model.save(tmp_path / "model.zip")
    policy = load_policy(tmp_path / "model.zip")
    assert isinstance(policy, UnitGraph)
    assert policy.softmax
    assert policy.unit_names == ("tanh",)
    seen = observations(BOX)
    with torch.no_grad():
        actor = model.policy.get_distribution(torch.as_tensor(seen)).distribution
    rows = seen.astype(np.float32).reshape(len(seen), -1)
    scores = policy.scores(rows).astype(np.float64)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    assert (np.abs(actor.logits.numpy() - scores) <= rounding_bounds(policy, rows)).all()


def test_recurrent_policies_are_refused_by_name(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = contrib.RecurrentPPO("MlpLstmPolicy", World(BOX), device="cpu", policy_kwargs={"lstm_hidden_size": 4})
    model.save(tmp_path / "model.zip")
    with pytest.raises(InputError, match="the policy has a memory"):
        load_policy(tmp_path / "model.zip")


@pytest.mark.parametrize("name", ["PPO", "DQN", "MaskablePPO"])
def test_a_default_agent_on_frozen_lake_is_verified_as_it_is(name, tmp_path):
    """The verdict is what following `predict` through the environment shows, until it ends or comes back."""
    import polvet

    lake = "gym:FrozenLake-v1?map_name=8x8&is_slippery=false"
    for seed in range(3):
        env = gym.make("FrozenLake-v1", map_name="8x8", is_slippery=False)
        algorithm, options = CASES[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = algorithm("MlpPolicy", env, seed=seed, device="cpu", **options)
        with torch.no_grad():  # untrained actors have nearly equal scores everywhere
            for parameter in model.policy.parameters():
                parameter.mul_(3.0)
        model.save(tmp_path / "agent.zip")
        policy = load_policy(tmp_path / "agent.zip")
        rows = np.arange(64, dtype=np.float32)[:, None]
        clear = ~near_ties(policy, rows)
        theirs = np.array([int(model.predict(place, deterministic=True)[0]) for place in range(64)])
        assert clear.mean() > 0.9
        assert np.array_equal(policy.choose(rows)[clear], theirs[clear])
        result = polvet.load(lake).policy(tmp_path / "agent.zip").verify()
        place, _ = env.reset()
        seen, ended = set(), False
        while place not in seen and not ended:
            seen.add(place)
            place, reward, ended, _, _ = env.step(int(theirs[place]))
        if clear[list(seen)].all():
            fell = ended and reward == 0
            assert result.verdict.value == ("unsafe" if fell else "safe")
