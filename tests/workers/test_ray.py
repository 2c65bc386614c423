"""On a real Ray cluster commands write the same bytes as here, also when workers are killed in the middle of a chunk."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from benchmarks.queries import PEERS

from polvet.domains import generate
from polvet.domains.shipped import find_shipped
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.workers.ray_cluster import open_cluster
from tests.workers.cluster import NODES, start_cluster

pytest.importorskip("ray")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
LINE, BIRD = find_shipped("line-faulty"), find_shipped("bird")


@pytest.fixture(scope="module")
def cluster():
    with start_cluster() as found:
        yield found


def start(*arguments):
    command = [sys.executable, "-m", "polvet", *map(str, arguments), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, code):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    return json.loads(out)


def run(*arguments, code):
    return finish(start(*arguments), code)


def fuzz(folder, workers):
    return ["fuzz", LINE.task, LINE.policy, "--runs", "24000", "--round", "256", "--seed", "5", "-o", folder / "runs.jsonl",
            "--workers", workers]  # fmt: skip


def evaluate(folder, workers):
    return ["evaluate", BIRD.task, BIRD.policy, "--starts", "400", "--runs", "2000", "--max-steps", "300", "--seed", "2",
            "-o", folder / "runs.jsonl", "--workers", workers]  # fmt: skip


def decide(folder, workers):
    return ["decide", BIRD.task, "--states", folder.parent / "states.jsonl", "--fresh", "-o", folder / "decided.jsonl",
            "--certificates", folder / "why", "--workers", workers]  # fmt: skip


def verify(folder, workers):
    """Nine of its questions are hard: workers get them."""
    return [
        "verify",
        folder.parent / "line.toml",
        folder.parent / "network.json",
        "--method",
        "projection",
        "--workers",
        workers,
    ]


COMMANDS = {"fuzz": (fuzz, 10), "evaluate": (evaluate, 0), "decide": (decide, 10), "verify": (verify, 20)}


def write_line(folder):
    """A line and a wide random network, about which a few questions take thousands of boxes."""
    made = generate("one-way-line", n=12, p=8)
    made.write(folder / "line.jani")
    network = made.task().network
    names, rng = [variable.name for variable in network.variables], np.random.default_rng(0)
    layers = [
        (rng.normal(size=(b, a)) * 0.5, rng.normal(size=b) * 0.5)
        for a, b in pairwise([len(names), 64, 64, len(network.labels)])
    ]
    save_policy(network_of(layers, names, list(network.labels)), folder / "network.json")


def files_of(folder):
    """Every file's content; the seconds that deciding took are no result."""
    found = {}
    for file in sorted(folder.rglob("*.json*")):
        content = file.read_text()
        if file.name == "decided.jsonl":
            rows = [json.loads(line) for line in content.splitlines()]
            content = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
        found[str(file.relative_to(folder))] = content
    return found


def results_of(answer):
    """The figures without those that tell what it cost."""
    costs = ("decide_seconds", "threads", "peak_bytes", "known_states", "search", "seconds")
    figures = {key: value for key, value in answer["figures"].items() if key not in costs}
    if "states" in figures:
        figures["states"] = [{**row, "seconds": None} for row in figures["states"]]
    return answer["verdict"], answer["reason"], figures


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    (folder / "cluster").mkdir()
    run("explore", BIRD.task, "-o", folder / "states.jsonl", code=0)
    lines = (folder / "states.jsonl").read_text().splitlines()
    (folder / "states.jsonl").write_text("\n".join(lines[:6000]) + "\n")
    write_line(folder)
    answers = {}
    for name, (command, code) in COMMANDS.items():
        (folder / name).mkdir()
        answers[name] = run(*command(folder / name, "1"), code=code)
    return folder, answers


@pytest.mark.parametrize(
    ("name", "deaths"),
    [("fuzz", 0), ("evaluate", 0), ("decide", 0), ("verify", 0), ("fuzz", 2), ("evaluate", 2), ("verify", 1)],
)  # deciding is over before a worker is found at work
@pytest.mark.cluster
def test_the_cluster_writes_what_one_process_writes(cluster, local, name, deaths):
    folder, answers = local
    command, code = COMMANDS[name]
    mine = folder / f"{name}-{deaths}"
    mine.mkdir()
    process = start(*command(mine, f"ray:{cluster.address}"))
    killed = cluster.kill_workers(process, deaths)
    answer = finish(process, code)
    assert killed >= min(deaths, 1)  # the command may end before the last one is found at work
    assert files_of(mine) == files_of(folder / name)
    assert files_of(mine) or name == "verify"  # no proof, no file
    there, here = (json.loads(json.dumps(results_of(one)).replace(str(f), "")) for one, f in
                   ((answer, mine), (answers[name], folder / name)))  # fmt: skip
    assert there == here


@pytest.mark.cluster
def test_a_campaign_goes_on_elsewhere(cluster, local):
    folder, _ = local
    mine = folder / "begun-here"
    mine.mkdir()
    begun = [*fuzz(mine, "2")]
    begun[begun.index("24000")] = "6000"
    run(*begun, code=10)
    run(*fuzz(mine, f"ray:{cluster.address}"), code=10)
    assert files_of(mine) == files_of(folder / "fuzz")


@pytest.mark.cluster
def test_a_time_limit_keeps_what_came_back(cluster, tmp_path):
    command = [*fuzz(tmp_path, f"ray:{cluster.address}"), "--time-limit", "12"]
    command[command.index("24000")] = "1000000000"
    answer = run(*command, code=10)
    assert "time limit" in answer["reason"]
    assert answer["figures"]["rounds"] > 0
    assert len((tmp_path / "runs.jsonl.journal").read_text().splitlines()) == answer["figures"]["rounds"] + 1


@pytest.mark.cluster
def test_a_grid_of_queries_gets_the_same_answers(cluster, tmp_path):
    answers = []
    for workers in ("1", f"ray:{cluster.address}"):
        folder = tmp_path / workers[:3]
        folder.mkdir()
        command = [sys.executable, "-m", "benchmarks.queries", "--count", "4", "--alone", "--workers", workers]
        found = subprocess.run([*command, "-o", str(folder)], capture_output=True, text=True, timeout=300, cwd=ROOT)
        assert found.returncode == 0, found.stderr
        rows = json.loads((folder / "queries.json").read_text())["questions"]
        answers.append([(row["kind"], row["polvet"]["answer"]) for row in rows])
    assert answers[0] == answers[1]
    assert Counter(kind for kind, _ in answers[0]) == dict.fromkeys(PEERS, 4)


@pytest.mark.cluster
def test_all_nodes_serve(cluster):
    code = f"import ray; ray.init('{cluster.address}', log_to_driver=False); print(len(ray.nodes()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert found.stdout.strip() == str(NODES), found.stderr


@pytest.mark.cluster
def test_work_under_way_when_the_cluster_is_left_calls_no_new_one(cluster):
    import ray

    with open_cluster(cluster.address) as crew:
        results = crew.map(operator.add, 1, range(1000))
        assert next(results) == 1
    results.close()  # as a traceback does that kept it alive until after the cluster was left
    assert not ray.is_initialized()


def test_a_cluster_that_does_not_answer_is_an_input_error():
    process = start("fuzz", LINE.task, LINE.policy, "--workers", "ray:127.0.0.1:9")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 30
    assert "no Ray cluster answers at '127.0.0.1:9'" in errors
    assert "ray start --head" in errors


def test_a_missing_ray_names_its_extra():
    code = "import sys; sys.modules['ray'] = None; from polvet.cli import main; main()"
    command = [sys.executable, "-c", code, "fuzz", str(LINE.task), str(LINE.policy), "--workers", "ray:auto"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 30
    assert "polvet[ray]" in found.stderr
