"""What is not in the weights: classes of one's own, hooks, rounds left out, probabilities levelled. Never read in silence."""

import warnings

import numpy as np
import pytest

import polvet
from polvet.check.policy_bounds import NetworkBounds
from polvet.check.unit_bounds import UnitBounds
from polvet.errors import InputError
from polvet.policy import load_policy, near_ties, possible_choices, rounding_bounds, save_policy
from polvet.policy.networks import Network, network_of
from polvet.policy.tape import Tape
from polvet.policy.unit_graph import UnitGraph

F = np.float32


# -- a softmax whose probabilities underflow


def far_apart(chain):
    """Scores x, -x, -1.01 x: behind a softmax the last two are both 0 where x is large."""
    tape = Tape(1)
    weights = F([[1.0], [-1.0], [-1.01]])
    if chain:
        return network_of([(weights, np.zeros(3, F))], ["x"], ["a", "b", "c"], softmax=True)
    same = tape.unit("clip", [0], -1e6, 1e6)
    return tape.policy(tape.affine(same, weights), ["x"], ["a", "b", "c"], softmax=True)


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "graph"])
def test_scores_that_a_softmax_levels_are_near_ties_where_the_best_is_not_applicable(chain, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    policy = far_apart(chain)
    assert isinstance(policy, Network if chain else UnitGraph)
    save_policy(policy, tmp_path / "p.onnx")
    rows = F([[3], [20], [60], [200]])
    theirs = ort.InferenceSession(tmp_path / "p.onnx", providers=["CPUExecutionProvider"]).run(None, {"inputs": rows})[
        0
    ]
    assert (theirs[2:, 1:] == 0).all()
    mask = np.array([[False, True, True]] * 4)
    possible = possible_choices(policy, rows, mask)
    assert possible.tolist() == [[False, True, False], [False, True, False], [False, True, True], [False, True, True]]
    assert not near_ties(policy, rows).any(), "the best of all is clear"


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "graph"])
def test_no_verdict_rests_on_scores_that_a_softmax_levels(chain, tmp_path):
    """Only b and c are applicable; c fails. The scores choose b, a library that masks probabilities may choose c."""
    policy = far_apart(chain)
    save_policy(policy, tmp_path / "p.onnx")
    bounds = NetworkBounds(policy, [0], 1) if chain else UnitBounds(policy, [0], 1)
    for place, clear in ((20.0, True), (200.0, False)):
        box = np.array([[place]])
        assert bounds.beaten(box, box)[0, 2, 1] == clear
    for start, verdict in ((20, "safe"), (200, "unknown")):
        m = polvet.ModelBuilder("far")
        x = m.int("x", 0, 300, initial=start)
        m.edge("a", guard=x < 0, to={x: x})
        m.edge("b", guard=x > 0, to={x: x})
        m.edge("c", guard=x > 0, to={x: 0})
        task = polvet.load(m, fail="x == 0", goal="false")
        for method in ("explicit", "ic3"):
            assert task.policy(tmp_path / "p.onnx").verify(method).verdict.value == verdict, (method, start)


def test_factors_behind_a_sum_may_be_multiplied_into_its_weights():
    """Each node alone is exact; weights times five are not, and their errors do not cancel as the weights do."""
    big = 2.0**22
    tape = Tape(2)
    total = tape.affine([0, 1], F([[big + 1, 1 - big], [0, 0]]))
    policy = tape.policy(tape.scaled(total, 5.0), None, None)
    rows = F([[1, 1]])
    folded = F(5) * F([big + 1, 1 - big])
    assert policy.scores(rows)[0, 0] == 10
    assert 0 < abs(float(folded.sum()) - 10) <= rounding_bounds(policy, rows)[0, 0]
    doubled = Tape(2)
    policy = doubled.policy(doubled.scaled(doubled.affine([0, 1], F([[big + 1, 1 - big], [0, 0]])), 2.0), None, None)
    assert (rounding_bounds(policy, rows) == 0).all(), "a power of two changes no digit"


# -- stable-baselines3 and torch


def agent(**options):
    gym, sb3 = pytest.importorskip("gymnasium"), pytest.importorskip("stable_baselines3")

    class World(gym.Env):
        observation_space, action_space = gym.spaces.Box(-5, 5, (2,)), gym.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), 0.0, False, False, {}

    policy = options.pop("policy", "MlpPolicy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sb3.PPO(policy, World(), device="cpu", policy_kwargs=options)


def own_policy():
    from stable_baselines3.common.policies import ActorCriticPolicy

    class Contrary(ActorCriticPolicy):
        def _predict(self, observation, deterministic=False):
            return super()._predict(-observation, deterministic)

    return {"policy": Contrary}


def own_extractor():
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Small(BaseFeaturesExtractor):
        def __init__(self, space):
            super().__init__(space, 2)

        def forward(self, observations):
            return observations / 7

    return {"features_extractor_class": Small}


def own_activation():
    torch = pytest.importorskip("torch")

    class Tanh(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x)

    return {"activation_fn": Tanh}


@pytest.mark.parametrize(
    ("options", "words"),
    [(own_policy, "the policy's class"), (own_extractor, "feature extractor"), (own_activation, "activation function")],
)
def test_an_agent_with_code_of_its_own_is_refused_by_name(options, words, tmp_path):
    pytest.importorskip("stable_baselines3")
    agent(**options()).save(tmp_path / "agent.zip")
    with pytest.raises(InputError, match=words):
        load_policy(tmp_path / "agent.zip")


def test_an_agent_with_separate_extractors_and_networks_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    model = agent(share_features_extractor=False, net_arch={"pi": [8], "vf": [9]})
    model.save(tmp_path / "agent.zip")
    policy = load_policy(tmp_path / "agent.zip")
    rows = np.random.default_rng(0).normal(size=(300, 2)).astype(F)
    with torch.no_grad():
        logits = model.policy.get_distribution(torch.as_tensor(rows)).distribution.logits.numpy()
    scores = policy.scores(rows).astype(np.float64)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    assert (np.abs(logits - scores) <= rounding_bounds(policy, rows)).all()


def test_modules_that_may_compute_anything_are_refused():
    torch = pytest.importorskip("torch")
    from polvet.policy.torch_network import network_from_torch

    class Residual(torch.nn.Sequential):
        def forward(self, x):
            return x + super().forward(x)

    class Contrary(torch.nn.Linear):
        def forward(self, x):
            return -super().forward(x)

    hooked = torch.nn.Linear(2, 2)
    hooked.register_forward_hook(lambda module, given, made: -made)
    normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    for part in (Residual(torch.nn.Linear(2, 2)), Contrary(2, 2), hooked, normed):
        with pytest.raises(InputError, match="may compute anything"):
            network_from_torch(torch.nn.Sequential(torch.nn.Linear(2, 2), part))
    with pytest.raises(InputError, match="Flatten"):
        network_from_torch(torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Linear(2, 2)))
    with pytest.raises(InputError, match="follows"):
        network_from_torch(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(-1), torch.nn.Linear(2, 2)))
    assert network_from_torch(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(-1))).softmax


# -- XGBoost stopped early


def test_rounds_behind_the_best_are_what_the_estimator_leaves_out(tmp_path):
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 8, (400, 2)).astype(F)
    labels = (rows.sum(axis=1) + 3 * rng.normal(size=400)).astype(int) % 3
    model = xgb.XGBClassifier(n_estimators=60, max_depth=3, early_stopping_rounds=3, n_jobs=1)
    model.fit(rows[:300], labels[:300], eval_set=[(rows[300:], labels[300:])], verbose=False)
    everywhere = np.array([(a, b) for a in range(8) for b in range(8)], dtype=F)
    theirs = model.predict(everywhere)
    whole = model.get_booster().predict(xgb.DMatrix(everywhere)).argmax(axis=1)
    assert (theirs != whole).any(), "the library has two answers"
    model.save_model(tmp_path / "m.json")
    with pytest.raises(InputError, match=r"stopped early.*booster\[:\d+\]"):
        load_policy(tmp_path / "m.json")
    best = model.get_booster()[: model.best_iteration + 1]
    best.save_model(tmp_path / "best.json")
    policy = load_policy(tmp_path / "best.json")
    assert np.array_equal(policy.choose(everywhere), theirs)
    m = polvet.ModelBuilder("world")
    x, _ = m.int("x", 0, 7, initial=0), m.int("y", 0, 7, initial=0)
    for label in "abc":
        m.edge(label, to={x: x})
    given = polvet.load(m, fail="x == 7").policy(model)
    assert ["abc".index(given.act({"x": int(a), "y": int(b)})) for a, b in everywhere] == theirs.tolist()
    save_policy(policy.with_trees((*policy.trees, *policy.trees)), tmp_path / "more.json")
    again = xgb.XGBClassifier()
    again.load_model(tmp_path / "more.json")
    more = load_policy(tmp_path / "more.json")
    assert len(more.trees) == 2 * len(policy.trees)
    assert np.array_equal(again.predict(everywhere), more.choose(everywhere)), "added trees are not left out"
