"""The page of a certificate of `polvet verify`: an unsafe run to be replayed, what proves safety, or a region of safe starts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polvet.check.checker import Accepted, Subjects, check
from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.report.campaign import read_run
from polvet.report.invariant import invariant_part
from polvet.report.markup import card, code, plural, text
from polvet.report.page import Page, Part
from polvet.report.pictures import Pictures
from polvet.report.region import DrawnStarts, drawn_starts, region_part
from polvet.report.replay import replay_part
from polvet.sources import options_from_json
from polvet.verify.split_tree import completed
from polvet.worlds.formats import load_model

KINDS = {
    "run": "Unsafe",
    "invariant": "Safe",
    "reachable-set": "Safe",
    "grid": "Safe",
    "safe-region": "Safe from a region",
}


def verification_page(
    path: Path, certificate: Mapping[str, Any], task: Path | None, policy: Path | None, *, allow_code: bool = False
) -> Page:
    """Return the page; with the task and the policy at hand the independent checker is asked, else nothing is claimed."""
    word, safe = KINDS[certificate["kind"]], certificate["kind"] != "run"
    command = ["polvet", "certify", str(path), "--task", str(task or "TASK")]
    of_policy = "policy_sha256" in certificate or certificate["kind"] != "safe-region"
    if of_policy:
        command += ["--policy", str(policy or "POLICY")]
    command += _words(certificate.get("options"))
    drawn: DrawnStarts | None = None
    if task is None or (of_policy and policy is None):
        sort, level = "open", "Not checked"
        says = f"The certificate claims: {word.lower()}. Give --task and --policy, and the checker judges it."
    else:
        subjects = Subjects(task, policy, None, allow_code=allow_code)
        result = check(completed(dict(certificate), subjects), subjects, Where(str(path)))
        if isinstance(result, Accepted):
            sort, level, says = ("good" if safe else "bad"), "Proved", f"The checker accepts: {result.claim}."
            if certificate["kind"] == "safe-region" and policy is not None:
                options = options_from_json(certificate.get("options", {}), Where(str(path)))
                drawn = drawn_starts(task, policy, subjects.read_with(options))
        else:
            sort, level, word, says = "bad", "Not proved", "Rejected", f"The checker rejects it: {result.reason}."
    count = certificate.get("count")
    size = f" It lists {plural(count, 'state')}." if isinstance(count, int) else ""
    body = f"<p>{text(says)}{text(size)}</p><p>Check it yourself:</p>{code(shlex.join(command))}"
    parts: list[Part] = []
    data: Json = {}
    if certificate["kind"] == "run":
        pictures = Pictures(_metadata(task))
        part, data = replay_part([read_run(certificate, None, Where(str(path)))], [], pictures)
        data["lines"] = pictures.lines
        parts += [part] if part is not None else []
    if (region := region_part(certificate, drawn, Where(str(path)))) is not None:
        parts.append(region)
    if (invariant := invariant_part(certificate, Where(str(path)))) is not None:
        parts.append(invariant)
    return Page(f"Verification: {path.name}", card(sort, level, word, body), tuple(parts), data)


def _words(options: Any) -> list[str]:
    """Return the words that ask for the conditions in the certificate, which the page tells in its claim."""
    try:
        return options_from_json(options or {}, Where("options")).arguments()
    except InputError:
        return []


def _metadata(task: Path | None) -> dict[str, str]:
    """What the model says about itself, for drawing its states."""
    if task is None:
        return {}
    if task.suffix == ".toml":
        from polvet.sources import load_task

        return dict(load_task(task).network.model.metadata)
    return dict(load_model(task).metadata)
