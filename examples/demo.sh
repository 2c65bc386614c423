#!/bin/sh
# What polvet does, on a built-in benchmark: make a world, look at it, decide which states are safe, check the evidence.
set -eu
POLVET=${POLVET:-polvet}
DIR=${DIR:-out/demo}
mkdir -p "$DIR"
say() { printf '\n$ polvet %s\n' "$*"; "$POLVET" "$@" || [ $? -eq 10 ]; }

say domains one-way-line n=3 p=4 -o "$DIR/line.jani"
say info "$DIR/line.toml"
say explore "$DIR/line.toml"
say decide "$DIR/line.toml" -o "$DIR/safe.json" --state \
    location_load_0=3,location_load_1=0,location_load_2=0,location_load_3=0,truck_0=0,truck_load_0=0,truck_vel_0=0,aux_vel=0
say certify "$DIR/safe.json" --task "$DIR/line.toml"
cat > "$DIR/plan.json" <<'PLAN'
{"format": "fmp/1", "semantics": "deterministic", "initial": "walk",
 "variables": [{"name": "steps", "lower": 0, "upper": null}, {"name": "doors", "lower": 0, "upper": null}],
 "control_states": ["walk", "open"],
 "edges": [{"id": 0, "from": "walk", "to": "walk", "choices": [{"action": "step", "effects": {"steps": -1}}]},
           {"id": 1, "from": "walk", "to": "open", "choices": [{"action": "knock", "effects": {"doors": -1, "steps": 3}}]},
           {"id": 2, "from": "open", "to": "walk", "choices": [{"action": "enter", "effects": {}}]}]}
PLAN
say terminates "$DIR/plan.json" -o "$DIR/rank.json"
say certify "$DIR/rank.json" --task "$DIR/plan.json"
