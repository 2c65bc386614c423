"""torch modules in memory and stable-baselines3 archives, against torch itself; nothing is unpickled."""

import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.policy import load_policy, rounding_bounds
from polvet.policy.torch_network import ACTIVATIONS, network_from_torch

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

RNG = np.random.default_rng(2)


def agrees(network, module, rows):
    with torch.no_grad():
        theirs = module(torch.from_numpy(rows)).numpy()
    return (np.abs(theirs - network.scores(rows)) <= rounding_bounds(network, rows)).all()


def test_a_sequential_has_torchs_scores_up_to_the_rounding_bound():
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU())
    module = torch.nn.Sequential(
        torch.nn.Flatten(), inner, torch.nn.Identity(), torch.nn.Linear(32, 32, bias=False), torch.nn.ReLU(),
        torch.nn.Dropout(0.5), torch.nn.Linear(32, 5),
    ).eval()  # fmt: skip
    network = network_from_torch(module, [f"v{i}" for i in range(6)], list("abcde"))
    assert agrees(network, module, RNG.integers(-9, 9, size=(3000, 6)).astype(np.float32))


def test_what_torch_exports_to_onnx_is_read_as_the_same_network(tmp_path):
    pytest.importorskip("onnx")
    torch.manual_seed(1)
    module = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(4, 9), torch.nn.ReLU(), torch.nn.Linear(9, 3)
    ).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.zeros(1, 4),), tmp_path / "m.onnx", dynamo=False)
    exported, direct = load_policy(tmp_path / "m.onnx"), network_from_torch(module)
    rows = RNG.normal(size=(50, 4)).astype(np.float32)
    assert np.array_equal(exported.scores(rows), direct.scores(rows))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([torch.nn.Linear(2, 2), torch.nn.RReLU()], r"'1' \(RReLU\)"),
        ([torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)], "looks at the batch"),
        ([torch.nn.Linear(2, 3), torch.nn.Linear(2, 2)], "takes 2 values, 3 arrive"),
        ([torch.nn.Linear(2, 2), torch.nn.Dropout(0.5)], "eval"),
        ([torch.nn.Linear(2, 2).double()], "float64"),
        ([torch.nn.ReLU()], "no linear layer"),
        ([torch.nn.Identity()], "no linear layer"),
    ],
)
def test_other_modules_are_refused_by_class_and_position(parts, words):
    with pytest.raises(InputError, match=words):
        network_from_torch(torch.nn.Sequential(*parts))


@pytest.mark.parametrize("activation", sorted(set(ACTIVATIONS) - {"Identity"}))
def test_every_activation_has_torchs_scores_up_to_the_bound(activation):
    torch.manual_seed(3)
    kind = getattr(torch.nn, activation)
    parts = [
        torch.nn.Linear(4, 12),
        torch.nn.BatchNorm1d(12),
        kind(),
        torch.nn.Linear(12, 12),
        kind(),
        torch.nn.Linear(12, 3),
    ]
    module = torch.nn.Sequential(*parts).eval()
    module[1].running_mean.normal_()
    module[1].running_var.uniform_(0.5, 2.0)
    network = network_from_torch(module)
    rows = np.concatenate([RNG.normal(size=(500, 4)) * 3, RNG.integers(-9, 9, size=(500, 4))]).astype(np.float32)
    assert agrees(network, module, rows)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Untrained models of three algorithms, saved by the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip("stable_baselines3")
        folder = tmp_path_factory.mktemp("sb3")
        relu = {"activation_fn": torch.nn.ReLU, "net_arch": [24, 16]}
        made = {
            "dqn": library.DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [16, 16]}, seed=1),
            "ppo": library.PPO("MlpPolicy", "CartPole-v1", policy_kwargs=relu, seed=1),
            "a2c": library.A2C("MlpPolicy", "CartPole-v1", policy_kwargs=relu, seed=1),
            "tanh": library.PPO("MlpPolicy", "CartPole-v1", seed=1),
            "continuous": library.PPO("MlpPolicy", "Pendulum-v1", policy_kwargs=relu, seed=1),
        }
        for name, model in made.items():
            model.save(folder / f"{name}.zip")
    return folder, made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dqn", "ppo", "a2c", "tanh"])
def test_an_archive_chooses_what_the_library_predicts(name, archives):
    folder, made = archives
    network = load_policy(folder / f"{name}.zip", ["x", "v", "angle", "spin"], ["left", "right"])
    rows = RNG.normal(size=(2000, 4)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, _ = made[name].predict(rows, deterministic=True)
    scores, bounds = network.scores(rows), rounding_bounds(network, rows)
    clear = np.abs(scores[:, 0] - scores[:, 1]) > bounds.sum(axis=1)
    assert clear.mean() > 0.9
    assert np.array_equal(network.choose(rows)[clear], theirs[clear])


def test_continuous_actions_are_refused_by_name(archives):
    folder, _ = archives
    with pytest.raises(InputError, match="action space is Box"):
        load_policy(folder / "continuous.zip")


def rewritten(source, target, changes):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = changes.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


class Dangerous:
    """Unpickling this would raise, and so show that it happened."""

    def __reduce__(self):
        return exec, ("raise SystemExit('the pickle was run')",)


def test_no_pickle_inside_an_archive_is_run(archives, tmp_path):
    folder, _ = archives
    evil = rewritten(folder / "dqn.zip", tmp_path / "evil.zip", {"policy.pth": pickle.dumps(Dangerous())})
    with pytest.raises(InputError):
        load_policy(evil)
    buffer = io.BytesIO()
    torch.save({"q_net.q_net.0.weight": Dangerous()}, buffer)
    evil = rewritten(folder / "dqn.zip", tmp_path / "evil2.zip", {"policy.pth": buffer.getvalue()})
    with pytest.raises(InputError, match="plain table of weights"):
        load_policy(evil)
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(InputError, match="never loaded"):
        load_policy(tmp_path / "module.pt")


def test_damaged_archives_are_input_errors(archives, tmp_path):
    folder, _ = archives
    whole = folder / "dqn.zip"
    cases = {
        "missing": {"policy.pth": None},
        "truncated weights": {"policy.pth": zipfile.ZipFile(whole).read("policy.pth")[:500]},
        "no json": {"data": b"\xff\xfe"},
        "a list": {"data": b"[]"},
    }
    for name, changes in cases.items():
        with pytest.raises(InputError):
            load_policy(rewritten(whole, tmp_path / f"{name}.zip", changes))
    settings = json.loads(zipfile.ZipFile(whole).read("data"))
    settings["observation_space"][":type:"] = "<class 'gymnasium.spaces.discrete.Discrete'>"
    with pytest.raises(InputError, match="not a list of whole numbers"):
        load_policy(rewritten(whole, tmp_path / "space.zip", {"data": json.dumps(settings)}))
    settings["observation_space"][":type:"] = "<class 'gymnasium.spaces.dict.Dict'>"
    with pytest.raises(InputError, match="observation space is Dict"):
        load_policy(rewritten(whole, tmp_path / "dict.zip", {"data": json.dumps(settings)}))
    twisted = json.loads(zipfile.ZipFile(whole).read("data"))
    twisted["policy_kwargs"]["activation_fn"] = "<class 'torch.nn.modules.activation.RReLU'>"
    with pytest.raises(InputError, match="activation function is RReLU"):
        load_policy(rewritten(whole, tmp_path / "rrelu.zip", {"data": json.dumps(twisted)}))
    settings["observation_space"] |= {":type:": "<class 'gymnasium.spaces.box.Box'>", "dtype": "uint8"}
    with pytest.raises(InputError, match="bytes"):
        load_policy(rewritten(whole, tmp_path / "bytes.zip", {"data": json.dumps(settings)}))
    for cut in (30, 2000, len(whole.read_bytes()) - 10):
        (tmp_path / "cut.zip").write_bytes(whole.read_bytes()[:cut])
        with pytest.raises(InputError, match="damaged or truncated"):
            load_policy(tmp_path / "cut.zip")


def test_nan_weights_and_unknown_parts_are_named(archives, tmp_path):
    folder, _ = archives

    def with_weights(change):
        table = torch.load(io.BytesIO(zipfile.ZipFile(folder / "dqn.zip").read("policy.pth")), weights_only=True)
        change(table)
        buffer = io.BytesIO()
        torch.save(table, buffer)
        return rewritten(folder / "dqn.zip", tmp_path / "changed.zip", {"policy.pth": buffer.getvalue()})

    with pytest.raises(InputError, match="layer 1 has the weight nan"):
        load_policy(with_weights(lambda table: table["q_net.q_net.2.weight"].fill_(float("nan"))))
    with pytest.raises(InputError, match="lstm"):
        load_policy(with_weights(lambda table: table.update({"lstm_actor.weight": torch.zeros(2)})))
    with pytest.raises(InputError, match="feature extractor"):
        load_policy(with_weights(lambda table: table.update({"q_net.features_extractor.cnn.weight": torch.zeros(2)})))


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("data", b"{}")
        bomb.writestr("policy.pth", bytes(50_000_000))
    with pytest.raises(InputError, match="would unpack"):
        load_policy(tmp_path / "bomb.zip")
