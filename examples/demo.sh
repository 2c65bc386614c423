#!/bin/sh
# The main job of polvet on a shipped policy: find its faults, repair it, prove it safe, and check the proof.
set -eu
POLVET=${POLVET:-polvet}
DIR=${DIR:-out/demo}
rm -rf "$DIR"
say() { printf '\n$ polvet %s\n' "$*"; "$POLVET" "$@" || [ $? -eq 10 ]; }

say domains --policies "$DIR"
say evaluate "$DIR/one-way-line-8-5.toml" "$DIR/one-way-line-8-5-faulty.json" --starts 2000
say debug "$DIR/one-way-line-8-5.toml" "$DIR/one-way-line-8-5-faulty.json" -o "$DIR/campaign" --starts 2000
say certify "$DIR"/campaign/certificates/safe-*.json --task "$DIR/one-way-line-8-5.toml" --policy "$DIR/campaign/policy.json"
say report "$DIR/campaign" -o "$DIR/report.html"
