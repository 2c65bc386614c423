"""A digest tells policies apart by every file that they are made of, and nothing outside their folder is read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from polvet.campaign.loop import debug
from polvet.campaign.outcome import Outcome
from polvet.campaign.settings import Settings
from polvet.check.checker import Accepted, Rejected, Subjects, check_file
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.files import sha256
from polvet.policy.binding import load_fitted
from polvet.policy.identity import policy_files, policy_sha256
from polvet.policy.load import load_policy
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.sources import load_task

MODEL = """mdp
module m
  x : [0..9] init 3;
  [left] x > 0 & x < 9 -> (x'=x-1);
  [right] x > 0 & x < 9 -> (x'=x+1);
endmodule
"""
TASK = 'model = "m.prism"\nstart = "x >= 2 && x <= 7"\nfail = "x == 0"\ngoal = "x == 9"\n'


def line(folder: Path) -> Path:
    (folder / "m.prism").write_text(MODEL)
    (folder / "task.toml").write_text(TASK)
    return folder / "task.toml"


def policy_of(left: float, right: float):
    """A network that prefers the action with the larger bias, whatever x is."""
    return network_of([(np.zeros((2, 1)), np.array([left, right]))], ["x"], ["left", "right"])


def write_index(folder: Path, left: float, right: float) -> Path:
    save_policy(policy_of(left, right), folder / "p.jani2nnet")
    return folder / "p.jani2nnet"


def write_external(folder: Path, left: float, right: float) -> Path:
    """An ONNX file whose tensors all stand in one file beside it."""
    onnx = pytest.importorskip("onnx")
    path = folder / "p.onnx"
    save_policy(policy_of(left, right), path)
    made = onnx.load_model_from_string(path.read_bytes())
    data = b""
    for tensor in made.graph.initializer:
        raw = onnx.numpy_helper.to_array(tensor).astype("<f4").tobytes()
        for field in ("raw_data", "float_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", "p.data"), ("offset", str(len(data))), ("length", str(len(raw)))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        data += raw
    (folder / "p.data").write_bytes(data)
    path.write_bytes(made.SerializeToString())
    return path


WRITERS = {"jani2nnet": write_index, "onnx": write_external}
WEIGHTS = {"jani2nnet": "p.nnet", "onnx": "p.data"}


@pytest.fixture(params=sorted(WRITERS))
def kind(request):
    return request.param


def test_other_weights_are_another_policy(tmp_path, kind):
    path = WRITERS[kind](tmp_path, 1, 0)
    index, before, task = path.read_bytes(), policy_sha256(path), load_task(line(tmp_path))
    assert load_fitted(task, path).sha256 == before
    WRITERS[kind](tmp_path, 2, 0)
    assert path.read_bytes() == index
    assert policy_sha256(path) != before
    assert load_fitted(task, path).sha256 == policy_sha256(path)


def test_the_names_beside_a_network_belong_to_it(tmp_path):
    network = write_index(tmp_path, 1, 0).with_suffix(".nnet")
    before = policy_sha256(network)
    interface = json.loads((tmp_path / "p.jani2nnet").read_text())
    (tmp_path / "p.jani2nnet").write_text(json.dumps(interface | {"output": ["right", "left"]}))
    assert load_policy(network).outputs == ("right", "left")
    assert policy_sha256(network) != before


def test_a_policy_of_one_file_has_the_digest_of_its_bytes(tmp_path):
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"format": "rules/1", "rules": [{"when": "x >= 3", "action": "file"}]}))
    assert policy_files(file) == (file,)
    assert policy_sha256(file) == sha256(file)


def test_every_file_that_loading_opens_is_listed(tmp_path, kind):
    """The files are taken from the interpreter itself, not from what the readers say."""
    path = WRITERS[kind](tmp_path, 1, 0)
    opened: set[Path] = set()
    listening = True

    def hear(event, arguments):
        if listening and event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(str(tmp_path)):
            opened.add(Path(arguments[0]))

    sys.addaudithook(hear)
    load_policy(path)
    listening = False
    assert path in opened
    assert len(opened) == 2
    assert opened == set(policy_files(path))


@pytest.mark.parametrize("name", ["../w.nnet", "/w.nnet", "sub/../../w.nnet", "link.nnet", "", "a\0b"])
def test_nothing_outside_the_policys_folder_is_read(tmp_path, name):
    home = tmp_path / "home"
    home.mkdir()
    path = write_index(home, 1, 0)
    (home / "p.nnet").rename(tmp_path / "w.nnet")
    (home / "link.nnet").symlink_to(tmp_path / "w.nnet")
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"file": str(tmp_path / "w.nnet") if name == "/w.nnet" else name}))
    for reader in (load_policy, policy_sha256, policy_files):
        with pytest.raises(InputError, match="not in its own folder"):
            reader(path)


def test_a_hidden_key_names_its_file_all_the_same(tmp_path):
    path = write_index(tmp_path, 1, 0)
    path.write_text(path.read_text().replace('"file"', '"f\\u0069le"'))
    assert policy_files(path) == (path, tmp_path / "p.nnet")


def test_a_resumed_search_does_not_speak_of_other_weights(tmp_path, kind, capsys):
    """With the first weights every run goes left, into `fail`; with the second ones none does."""
    task, path = line(tmp_path), WRITERS[kind](tmp_path, 1, 0)
    command = ["fuzz", str(task), str(path), "-o", str(tmp_path / "runs.jsonl"), "--runs", "64", "--json"]
    assert run(command) == 10
    WRITERS[kind](tmp_path, 0, 1)
    capsys.readouterr()
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["unsafe_runs"] == 0


def test_a_certificate_is_about_the_weights(tmp_path, kind):
    task, path = line(tmp_path), WRITERS[kind](tmp_path, 0, 1)
    assert run(["verify", str(task), str(path), "-o", str(tmp_path / "c.json")]) == 0
    assert isinstance(check_file(tmp_path / "c.json", Subjects(task, path)), Accepted)
    WRITERS[kind](tmp_path, 0, 2)
    assert isinstance(check_file(tmp_path / "c.json", Subjects(task, path)), Rejected)


@pytest.mark.parametrize("biases", [(0, 1), (1, 0)], ids=["safe", "repaired"])
def test_a_campaign_keeps_every_file_of_a_policy(tmp_path, kind, biases):
    task, path = line(tmp_path), WRITERS[kind](tmp_path, *biases)
    folder = tmp_path / "campaign"
    settings = Settings(starts=50, runs=2, fuzz_runs=2)
    found = debug(load_task(task), path, folder, settings)
    assert found.outcome is Outcome.SAFE
    for file in (path, tmp_path / WEIGHTS[kind]):
        file.unlink()  # what the campaign claims is about its own copies
    assert isinstance(check_file(found.certificate, Subjects(task, found.policy)), Accepted)
    assert json.loads((folder / "outcome.json").read_text())["policy"] == str(found.policy.relative_to(folder))
    first = folder / "policies" / "0" / path.name
    WRITERS[kind](tmp_path, *biases)
    assert policy_sha256(first) == policy_sha256(path)
    resumed = debug(load_task(task), path, folder, settings)
    assert (resumed.outcome, resumed.records) == (found.outcome, found.records)
    (first.parent / WEIGHTS[kind]).write_bytes(b"other weights")
    with pytest.raises(InputError, match="not as the campaign wrote it"):
        debug(load_task(task), path, folder, settings)


def test_a_tasks_digest_covers_its_model(tmp_path):
    task = line(tmp_path)
    before = load_task(task).sha256
    (tmp_path / "m.prism").write_text(MODEL.replace("x-1", "x-2"))
    changed = load_task(task).sha256
    task.write_text(TASK.replace("x == 0", "x == 1"))
    assert len({before, changed, load_task(task).sha256}) == 3
