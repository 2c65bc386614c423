"""One certificate of every kind, each made by one of polvet's engines, with the words that certify it."""

from __future__ import annotations

import json

import numpy as np

from polvet.cli.app import run
from polvet.policy.finite_memory import dump_fmp
from polvet.policy.finite_memory.build import Builder
from tests.general.worlds import WORLDS

WALK = """mdp
module walk
  x : [0..6] init 3;
  [left] x>0 & x<6 -> (x'=x-1);
  [right] x>0 & x<6 -> (x'=x+1);
endmodule
"""
KOAT = "(GOAL COMPLEXITY)\n(STARTTERM (FUNCTIONSYMBOLS f))\n(VAR A)\n(RULES\nf(A) -> Com_1(g(A))\ng(A) -> Com_1(g(A)) :|: A >= 1\n)"


def make_all(folder):
    """Return, by kind, the words after `polvet certify` for a certificate that one of polvet's engines made; files are in the folder."""
    made = {}

    def plan(name, fmp, *more):
        (folder / f"{name}.json").write_text(json.dumps(dump_fmp(fmp)))
        keep(["terminates", f"{name}.json", *more], f"{name}.json")

    def keep(command, task, policy=None):
        target = folder / f"certificate-{len(made)}.json"
        run([*[str(folder / word) if (folder / word).is_file() else word for word in command], "-o", str(target)])
        kind = json.loads(target.read_text())["kind"]
        made[kind] = [str(target), "--task", str(folder / task)]
        if policy is not None:
            made[kind] += ["--policy", str(folder / policy)]
        return kind

    plan("ends", Builder("q").edge("q", "q", x=-1).build())
    plan("runs", Builder("q").edge("q", "q", x=1).build())
    stops = Builder("work").edge("work", "work", x=-1, guard="x > 0").edge("work", "done", guard="x == 0").build()
    plan("stops", stops, "--goal", "state == done")
    plan("misses", stops, "--goal", "x >= 1")
    plan(
        "doubles",
        Builder("a")
        .edge("a", "a", x=-1, y=2, guard="x > 0")
        .edge("a", "b", guard="x == 0 && y > 0")
        .edge("b", "b", x=1, y=-1, guard="y > 0")
        .edge("b", "a", guard="y == 0 && x > 0")
        .build(),
    )
    (folder / "loop.koat").write_text(KOAT)
    keep(["terminates", "loop.koat"], "loop.koat")
    (folder / "walk.prism").write_text(WALK)
    (folder / "walk.toml").write_text('model = "walk.prism"\nfail = "x = 0"\ngoal = "x = 6"\n')
    (folder / "all.toml").write_text(
        'model = "walk.prism"\nstart = "x >= 1 & x <= 5"\nfail = "x = 0"\ngoal = "x = 6"\n'
    )
    (folder / "edge.toml").write_text(
        'model = "walk.prism"\nstart = "x >= 0 & x <= 5"\nfail = "x = 0"\ngoal = "x = 6"\n'
    )
    keep(["decide", "walk.toml", "--state", "x=3"], "walk.toml")
    keep(["decide", "walk.toml", "--state", "x=3", "--sharpen"], "walk.toml")
    keep(["decide", "walk.toml", "--state", "x=0"], "walk.toml")
    (folder / "pushed.prism").write_text(WALK.replace("[left] x>0 & x<6 -> (x'=x-1)", "[left] x>0 & x<3 -> (x'=x-1)"))
    (folder / "pushed.toml").write_text('model = "pushed.prism"\nfail = "x = 6"\n')
    keep(["decide", "pushed.toml", "--state", "x=4", "--sharpen"], "pushed.toml")
    keep(["decide", "edge.toml", "--region"], "edge.toml")
    keep(["decide", "walk.toml", "--goal-reaching"], "walk.toml")
    keep(["decide", "walk.toml", "--state", "x=0", "--goal-reaching"], "walk.toml")
    keep(["permit", "walk.toml", "--bound", "0.1"], "walk.toml")
    keep(["permit", "walk.toml", "--bound", "0.1", "--per-state"], "walk.toml")
    (folder / "slip.prism").write_text(WALK.replace("(x'=x+1)", "0.9:(x'=x+1) + 0.1:(x'=0)"))
    (folder / "slip.toml").write_text('model = "slip.prism"\nfail = "x = 0"\ngoal = "x = 6"\n')
    run(["permit", str(folder / "slip.toml"), "--bound", "0.1", "--conflict", str(folder / "conflict.json")])
    made["conflict"] = [str(folder / "conflict.json"), "--task", str(folder / "slip.toml")]
    for name, rows in (("good", "right"), ("bad", "left")):
        table = {"format": "table/1", "inputs": ["x"], "outputs": ["left", "right"]}
        table["rows"] = [{"state": {"x": x}, "action": rows} for x in range(1, 6)]
        (folder / f"{name}.json").write_text(json.dumps(table))
    keep(["verify", "walk.toml", "bad.json"], "walk.toml", "bad.json")
    keep(["verify", "walk.toml", "good.json", "--method", "explicit"], "walk.toml", "good.json")
    keep(["verify", "walk.toml", "good.json", "--max-risk", "0.5"], "walk.toml", "good.json")
    keep(["verify", "walk.toml", "bad.json", "--max-risk", "0.5"], "walk.toml", "bad.json")
    keep(["verify", "walk.toml", "good.json", "--avoid", "stuck,deadlock,loop"], "walk.toml", "good.json")
    made["sure-end"] += ["--avoid", "stuck,deadlock,loop"]
    blocks = WORLDS["blocks"]
    (folder / "domain.pddl").write_text(blocks.domain)
    (folder / "p.pddl").write_text(blocks.instance(3))
    (folder / "right.txt").write_text(blocks.policy)
    old, new = next((old, new) for old, new, kind in blocks.mistakes.values() if kind == "cycle")
    (folder / "wrong.txt").write_text(blocks.policy.replace(old, new))
    keep(["generalizes", "right.txt", "p.pddl"], "right.txt")
    keep(["generalizes", "wrong.txt", "p.pddl"], "wrong.txt")
    (folder / "lower.qnp").write_text("lower\n1 n 1\n1 n 1\n1 n 0\n1\na\n1 n 1\n1 n 0\n")
    words = ["synthesize", "lower.qnp", "-o", str(folder / "plan.json"), "--certificate", str(folder / "solves.json")]
    run([str(folder / word) if word == "lower.qnp" else word for word in words])
    made["solves"] = [
        str(folder / "solves.json"),
        "--task",
        str(folder / "lower.qnp"),
        "--policy",
        str(folder / "plan.json"),
    ]
    (folder / "turn.prism").write_text("mdp\nmodule m\n x : [0..1] init 0;\n [t] true -> (x'=1-x);\nendmodule\n")
    (folder / "turn.toml").write_text('model = "turn.prism"\nfail = "false"\ngoal = "x = 2"\n')
    (folder / "turn.json").write_text('{"format": "rules/1", "rules": [{"when": "true", "action": "t"}]}')
    keep(["verify", "turn.toml", "turn.json", "--avoid", "loop"], "turn.toml", "turn.json")
    run(["faults", str(folder / "all.toml"), str(folder / "bad.json"), "-o", str(folder / "faults.json")])
    repaired = folder / "repaired.json"
    words = ["repair", "all.toml", "bad.json", "--faults", "faults.json", "--certificate", "proof.json"]
    run([str(folder / word) if "." in word else word for word in words] + ["-o", str(repaired)])
    made["repair"] = [str(folder / "proof.json"), "--task", str(folder / "all.toml"), "--policy", str(repaired)]
    _network(folder / "walk.onnx", [[-1.0], [1.0]], [0.0, 0.0], "x", ["left", "right"])
    keep(["verify", "walk.toml", "walk.onnx", "--method", "ic3"], "walk.toml", "walk.onnx")
    (folder / "cool.toml").write_text('model = "cool.jani"\nfail = "t >= 9"\n')
    (folder / "cool.jani").write_text(_cooling())
    _network(folder / "cool.onnx", [[0.0], [0.0]], [1.0, 0.0], "t", ["cool", "heat"])
    keep(["verify", "cool.toml", "cool.onnx", "--method", "grid"], "cool.toml", "cool.onnx")
    return made


def _network(path, weights, bias, variable, labels):
    from polvet.policy.networks import network_of
    from polvet.policy.save import save_policy

    save_policy(network_of([(np.array(weights), np.array(bias))], [variable], labels), path)


def _cooling():
    """Return a real temperature that a step halves or raises."""
    from polvet.jani.write import dump_model
    from polvet.model.build import ModelBuilder

    m = ModelBuilder("cooling")
    t = m.real("t", 0, 10, initial=4)
    m.edge("cool", to={t: t / 2})
    m.edge("heat", guard=t <= 5, to={t: t + 1})
    return dump_model(m.build())
