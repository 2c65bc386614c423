"""Certificates of the first format, as evidence about flat texts: accepted by the checkers that read nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from polvet.check.subjects import Accepted, Subjects
from tests.check.kinds import make_all
from tests.evidence.second import KINDS, second_opinion


def test_certificates_that_engines_make_are_accepted_as_evidence_and_damaged_ones_are_not(tmp_path, capsys):
    judged = damaged = 0
    for kind, (certificate, *words) in make_all(tmp_path).items():
        if kind not in KINDS:
            continue
        files = dict(zip(words[::2], map(Path, words[1::2]), strict=True))
        subjects = Subjects(files["--task"], files.get("--policy"))
        document = json.loads(Path(certificate).read_text())
        assert isinstance(second_opinion(document, subjects, Accepted("")), Accepted), kind
        judged += 1
        if kind in ("safe-policy", "unsafe-rank", "strong-cyclic"):
            del document["states"][-1]
            damaged += not isinstance(second_opinion(document, subjects, Accepted("")), Accepted)
    assert judged >= 10
    assert damaged == 3
