"""Reports say what the folders hold, load nothing, and let no name become markup."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from html.parser import HTMLParser

import pytest

from polvet.cli.app import run
from polvet.domains.catalogue import ORIGIN, find_origin, generate
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.finite_memory import Builder, dump_fmp
from polvet.policy.load import load_policy
from polvet.policy.networks import network_of
from polvet.records.fault_files import read_faults
from polvet.records.journal import line_of, read_journal
from polvet.report import make_report
from polvet.report.campaign import read_campaign
from polvet.report.pictures import Pictures
from polvet.report.repairs import Change, compare_policies, count_changes
from polvet.report.rounds import plan_drawing
from polvet.sources import load_task
from polvet.verify import safe_starts_grid
from polvet.verify.grid import Attempt
from polvet.verify.safe_starts import find_safe_starts
from tests.general.worlds import WORLDS
from tests.report.stories import EVIL, LINE, SHIPPED, hostile_campaign, real_campaign
from tests.verify.real_worlds import random_world

VOID = {"meta", "link", "input", "img"}


class Outline(HTMLParser):
    """The elements of a page, and whether they are closed in order (SVG shapes close themselves)."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert not parser.open
    return parser


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    return real_campaign(tmp_path_factory.mktemp("report") / "line")


@pytest.fixture(scope="module")
def page(campaign):
    return make_report(campaign)


def test_the_verdict_its_level_and_the_way_to_check_it_stand_on_top(page, campaign):
    top = page[: page.index('<section id="course"')]
    assert ">Proved<" in top
    assert ">Safe<" in top
    assert f"polvet certify {campaign}/certificates/safe-" in top
    assert str(LINE) in top


def test_the_page_is_small_well_formed_and_loads_nothing(page):
    assert len(page.encode()) < 3_000_000
    parsed = outline(page)
    for _, attributes in parsed.tags:
        for key in ("src", "href"):
            value = attributes.get(key) or "#"
            assert value.startswith(("#", "data:"))
    assert "default-src 'none'" in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_every_fault_is_shown_with_what_the_final_policy_does_instead(page, campaign):
    faults = read_campaign(campaign).faults
    assert len(faults) == len(read_faults(load_task(LINE), campaign / "faults.json").faults)
    assert page.count('<details class="fault"') == len(faults)
    assert page.count("here: safe.") == len(faults)


def test_choices_before_and_after_are_those_of_the_policies(campaign):
    read = read_campaign(campaign)
    task = load_task(LINE)
    compared = compare_policies(read, task)
    semantics = Semantics(task.network)
    final = load_fitted(task, campaign / "policy.json")
    for fault, before, after in zip(read.faults, compared.choices[0], compared.choices[-1], strict=True):
        state = tuple(fault.state[variable.name] for variable in task.network.variables)
        assert fault.iteration > 0 or before == fault.action
        assert after == final.choose(state, {move.label for move in semantics.moves(state)})
    changed = compared.changes[0]
    assert changed is not None
    assert 0 < changed.changed < changed.total


def test_changed_numbers_are_counted():
    old = network_of([([[1, 2], [3, 4]], [0, 0])], ("x", "y"), ("a", "b"))
    new = network_of([([[1, 2], [3, 5]], [0, 1])], ("x", "y"), ("a", "b"))
    change = count_changes(old, new)
    assert change is not None
    assert (change.changed, change.total, change.what) == (2, 6, "weights")


def test_added_rules_and_changed_rows_are_counted(tmp_path):
    def load(document):
        (tmp_path / "policy.json").write_text(json.dumps(document))
        return load_policy(tmp_path / "policy.json", None, None)

    rules = [{"when": "x >= 3", "action": "a"}, {"when": "true", "action": "b"}]
    old, new = load({"format": "rules/1", "rules": rules}), load({"format": "rules/1", "rules": [*rules[:1], *rules]})
    assert count_changes(old, new) == Change(0, 2, 1, "rules")
    rows = [{"state": {"x": k}, "action": "a"} for k in range(3)]
    head = {"format": "table/1", "inputs": ["x"], "outputs": ["a", "b"]}
    old = load({**head, "rows": rows})
    new = load({**head, "rows": [{**rows[0], "action": "b"}, *rows[1:], {"state": {"x": 9}, "action": "b"}]})
    assert count_changes(old, new) == Change(1, 3, 1, "rows")


def test_a_task_without_a_goal_has_no_figures_about_it(campaign, tmp_path):
    shutil.copytree(campaign, tmp_path / "goalless")
    about = json.loads((campaign / "about.json").read_text())
    (tmp_path / "goalless/about.json").write_text(json.dumps({**about, "goal": "false"}))
    assert "Goal reached" in make_report(campaign)
    assert "Goal reached" not in make_report(tmp_path / "goalless")


def test_a_percentage_has_its_interval_on_its_tile(page):
    tiles = page.split('<dl class="tiles">')[1].split("</dl>")[0]
    unsafe, goal = tiles.split("<dt>Unsafe starts")[1], tiles.split("<dt>Goal reached")[1]
    for tile in (unsafe, goal):
        assert re.search(r"95% interval \d+\.\d\d to \d+\.\d\d", tile.split("</dd>")[0])


def test_a_second_chart_stands_only_where_the_first_is_too_coarse_for_it(campaign, tmp_path):
    assert make_report(campaign).count('<figure class="chart"') == 2  # 4.33% beside 100%
    folder = hostile_campaign(tmp_path / "short")  # 50% unsafe and 40% goal: the same axis
    assert make_report(folder).count('<figure class="chart"') == 1


def test_a_report_is_written_without_the_package_that_reads_its_policies(campaign, tmp_path, monkeypatch):
    folder = tmp_path / "onnx"
    shutil.copytree(campaign, folder)
    head, *records = read_journal(folder / "journal")
    for record in records:
        if "policy" in record["files"]:
            record["files"]["policy"]["name"] = "policies/0.onnx"
    (folder / "policies/0.onnx").write_bytes(b"\x08\x08\x12\x00")
    (folder / "journal").write_bytes(b"".join(map(line_of, [head, *records])))
    monkeypatch.setitem(sys.modules, "onnx", None)
    page = make_report(folder)
    assert page.count('<details class="fault"') == len(read_campaign(folder).faults)
    assert "is left out: " in page
    assert "onnx" in page.split("is left out: ")[1][:200]


def test_runs_are_drawn_and_their_faults_marked(page):
    data = json.loads(outline_data(page))
    run_ = data["runs"][0]
    assert len(run_["states"]) == len(run_["actions"]) + 1 == len(run_["drawings"])
    assert any(any(safe) for one in data["runs"] for safe in one["safe"] if safe)
    lines = run_["drawings"][0]
    drawn = "\n".join(
        line for k in range(0, len(lines), 2) for line in data["lines"][lines[k] : lines[k] + lines[k + 1]]
    )
    assert drawn.startswith("<svg")
    assert drawn.endswith("</svg>")


def outline_data(page: str) -> str:
    return page.split('id="data">')[1].split("</script>")[0]


def test_hostile_names_never_become_markup(tmp_path):
    page = make_report(hostile_campaign(tmp_path / "evil"))
    parsed = outline(page)
    assert sum(tag == "script" for tag, _ in parsed.tags) == 2
    assert not any("onerror" in attributes for _, attributes in parsed.tags)
    assert not any(attributes.get("src") == "x" for _, attributes in parsed.tags)
    assert EVIL in "".join(parsed.texts)  # shown, as text
    assert json.loads(outline_data(page))["variables"][0] == EVIL


@pytest.mark.parametrize("name", sorted({"racetrack", "flappy-bird", "one-way-line", "blocksworld"}))
def test_metadata_that_lies_about_the_world_costs_the_picture_only(tmp_path, name):
    told = json.dumps({"name": name, **{one.name: one.default for one in _entry(name).parameters}}, default=str)
    page = make_report(hostile_campaign(tmp_path / "evil", {ORIGIN: told}))
    assert json.loads(outline_data(page))["lines"] == []


def _entry(name):
    from polvet.domains.catalogue import CATALOGUE

    return CATALOGUE[name]


@pytest.mark.parametrize("told", [
    "", "nonsense", "[]", "3", '{"name": "nowhere"}', '{"name": "janitor"}', '{"name": ["janitor"]}',
    '{"name": "janitor", "width": 99999999999, "height": 3}',
    '{"name": "racetrack", "map": "/etc/passwd", "speed": 1, "slip": 0, "anywhere": 0}',
    '{"name": "flappy-bird", "width": 100000, "height": 10000, "walls": 5, "seed": 1}',
])  # fmt: skip
def test_absurd_origins_are_not_drawn(told):
    assert Pictures({ORIGIN: told}).origin is None


def test_a_generated_model_says_which_world_it_is(tmp_path):
    file, task = generate("janitor", width=3, height=4).write(tmp_path / "janitor.jani")
    assert find_origin(dict(load_task(task).network.model.metadata)) == ("janitor", {"width": 3, "height": 4})
    assert file.exists()
    for shipped in SHIPPED.glob("*.toml"):
        assert find_origin(dict(load_task(shipped).network.model.metadata)) is not None


def test_a_journal_that_names_files_outside_its_folder_is_refused(tmp_path):
    (tmp_path / "secret.json").write_text("{}")
    folder = hostile_campaign(tmp_path / "evil")
    files = {"faults": {"name": "../secret.json", "sha256": ""}}
    with open(folder / "journal", "ab") as journal:
        figures = {"reason": None, "seconds": 0}
        journal.write(line_of({"iteration": 0, "step": "strengthen", "figures": figures, "files": files}))
    with pytest.raises(InputError, match="not in its own folder"):
        make_report(folder)


def test_an_unfinished_campaign_is_unknown_and_says_how_to_go_on(campaign, tmp_path):
    folder = tmp_path / "cut"
    shutil.copytree(campaign, folder)
    (folder / "outcome.json").unlink()
    lines = (campaign / "journal").read_bytes().splitlines(keepends=True)
    (folder / "journal").write_bytes(b"".join(lines[:3]) + lines[3][:20])
    page = make_report(folder)
    assert "Unknown" in page
    assert "run the same polvet debug command again" in page


@pytest.mark.parametrize("seed", range(60))
def test_a_folder_with_a_damaged_value_is_told_or_refused_by_name(campaign, tmp_path, seed):
    """Any value of the journal or of a file beside it may be missing or of another type."""
    rng = random.Random(seed)
    folder = tmp_path / "damaged"
    shutil.copytree(campaign, folder)
    name = rng.choice(["journal", "journal", "about.json", "outcome.json", "faults/0.json", "runs/0.jsonl"])
    if name == "journal":
        records = read_journal(folder / name)
        _damage(records[rng.randrange(len(records))], rng)
        (folder / name).write_bytes(b"".join(map(line_of, records)))
    else:
        first, *others = (
            (folder / name).read_text().splitlines() if name.endswith("l") else [(folder / name).read_text()]
        )
        document = json.loads(first)
        _damage(document, rng)
        (folder / name).write_text("\n".join([json.dumps(document), *others]))
    try:
        assert "</html>" in make_report(folder)
    except InputError as error:
        assert str(folder) in str(error) or "options" in str(error)  # noqa: PT017


def _damage(document, rng):
    """Remove one value somewhere in the document, or put another in its place."""
    keys = list(document) if isinstance(document, dict) else range(len(document))
    key = rng.choice(list(keys))
    if isinstance(document[key], dict | list) and document[key] and rng.random() < 0.8:
        _damage(document[key], rng)
    elif rng.random() < 0.3:
        del document[key]
    else:
        document[key] = rng.choice([None, -1, 0.5, "text", [], [None], {}, {"x": None}, True])


def test_the_command_writes_the_file_and_names_wrong_input(campaign, tmp_path, capsys):
    assert run(["report", str(campaign), "-o", str(tmp_path / "r.html"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["figures"]["bytes"] == (tmp_path / "r.html").stat().st_size
    assert run(["report", str(tmp_path), "-o", str(tmp_path / "s.html")]) == 30
    assert "polvet debug" in capsys.readouterr().err
    assert (
        run(["report", str(campaign), "-o", str(tmp_path / "s.html"), "--task", str(SHIPPED / "blocksworld-4.toml")])
        == 30
    )
    assert "is not the task of this campaign" in capsys.readouterr().err


def plan_certificate(tmp_path, *, loops: bool):
    builder = Builder("q0", name=EVIL).edge("q0", "q1", x=-1).edge("q1", "q0", x=1 if loops else 0)
    plan, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    plan.write_text(json.dumps(dump_fmp(builder.build())))
    run(["terminates", str(plan), "-o", str(certificate)])
    return plan, certificate


@pytest.mark.parametrize("loops", [False, True])
def test_termination_pages_show_the_ranking_or_the_lasso(tmp_path, loops, capsys):
    plan, certificate = plan_certificate(tmp_path, loops=loops)
    page = make_report(certificate, task=plan)
    outline(page)
    assert ("Does not terminate" in page) == loops
    assert ('class="edge cycle"' in page) == loops
    assert ("Lexicographic ranking" in page) != loops
    assert page.count('class="edge falls"') == (0 if loops else 1)
    document = json.loads(certificate.read_text())
    if loops:
        document["initial_valuation"] = {"x": 0}
    else:
        document["components"][0]["lambda"] = {"x": 0}
    certificate.write_text(json.dumps(document))
    assert "Rejected" in make_report(certificate, task=plan)


def test_a_shield_is_a_heat_map_with_its_risks(tmp_path, capsys):
    model, shield = tmp_path / "folline.jani", tmp_path / "shield.json"
    generate("folline", length=8, width=5).write(model)
    run(["permit", str(model.with_suffix(".toml")), "--bound", "0.1", "-o", str(shield)])
    page = make_report(shield)
    outline(page)
    states = json.loads(shield.read_text())["states"]
    places = {(one["state"]["position"], one["state"]["deviation"]) for one in states}
    assert page.count('class="cell"') == len(places)


def test_an_unsafe_run_is_replayed_and_judged_by_the_checker(tmp_path, capsys):
    faulty, file = SHIPPED / "one-way-line-8-5-faulty.json", tmp_path / "run.json"
    assert run(["verify", str(LINE), str(faulty), "-o", str(file)]) == 10
    page = make_report(file, task=LINE, policy=faulty)
    outline(page)
    assert "Proved" in page
    data = json.loads(outline_data(page))
    assert data["runs"][0]["end"] == "fail"
    assert data["runs"][0]["drawings"][0] is not None
    assert "Not checked" in make_report(file)
    document = json.loads(file.read_text())
    document["states"][-1] = document["states"][0]
    file.write_text(json.dumps(document))
    assert "Rejected" in make_report(file, task=LINE, policy=faulty)


def mutate(item, rng):
    """Return the document with one piece removed, doubled or put out of shape."""
    copy = json.loads(json.dumps(item))
    place, key = None, None
    here = copy
    while isinstance(here, dict | list) and here:
        place, key = here, rng.choice(list(here) if isinstance(here, dict) else range(len(here)))
        here = here[key]
        if rng.random() < 0.3:
            break
    if place is not None:
        odd = rng.choice([None, -1, 1e300, "", EVIL, [], {}, [[]], {"a": 1}, True, 10**40])
        if rng.random() < 0.4:
            del place[key]
        else:
            place[key] = odd
    return copy


def test_certificates_out_of_shape_are_wrong_input_and_never_a_crash(tmp_path, capsys):
    _, lasso = plan_certificate(tmp_path, loops=True)
    documents = [json.loads(lasso.read_text())]
    documents.append(json.loads(plan_certificate(tmp_path, loops=False)[1].read_text()))
    states = [{"state": {"x": k, "y": k % 2}, "allowed": ["a", None], "value": "1/3"} for k in range(3)]
    documents.append({"format": "shield/1", "kind": "permissive", "bound": "1/2", "values": "exact", "states": states})
    documents.append({"kind": "run", "states": [{"x": 1}, {"x": 2}], "actions": ["a"], "end": "fail"})
    documents.append({"kind": "invariant", "rows": [], "blocked": [{"x": [0, 1], "y": [2, 3]}]})
    documents.append({"kind": "safe-region", "region": {"in": [{"x": [0.5, 1], "y": [2, 3]}]}, "proof": {}})
    rng, file, pages = random.Random(5), tmp_path / "odd.json", 0
    refused = 0
    for document in documents:
        for _ in range(60):
            file.write_text(json.dumps(mutate(document, rng)))
            try:
                outline(make_report(file))
                pages += 1
            except InputError:
                refused += 1
    assert min(pages, refused) > 30


def test_an_invariant_is_shown_with_its_blocked_boxes(tmp_path):
    blocked = [{EVIL: [0, 2], "y": [1, 1]}, {EVIL: [5, 5], "y": [0, 3]}]
    rows = [
        {"terms": {EVIL: 1, "y": -2}, "marks": [], "lower": 3, "upper": 3},
        {"terms": {"y": 1}, "marks": [], "lower": 0, "upper": 9},
    ]
    file = tmp_path / "invariant.json"
    file.write_text(json.dumps({"kind": "invariant", "rows": rows, "blocked": blocked}))
    page = make_report(file)
    parsed = outline(page)
    assert page.count('class="cell"') == 2
    told = "".join(parsed.texts)
    assert f"{EVIL} + -2 · y = 3" in told
    assert f"0 <= {EVIL} <= 2, y = 1" in told
    assert "0 <= y <= 9" in told


def test_a_region_is_a_map_with_the_starts_that_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(safe_starts_grid, "ATTEMPTS", (Attempt(16, 8, 8, 1),))
    _, fitted, (task, policy) = random_world(0, tmp_path)
    found, certificate = find_safe_starts(compile_policy(fitted))
    assert certificate["kind"] == "safe-region"
    file = tmp_path / "region.json"
    file.write_text(json.dumps(certificate))
    plain = make_report(file)
    assert (plain.count('class="safe"'), plain.count('class="failing"')) == (len(found.boxes), 0)
    page = make_report(file, task=task, policy=policy)
    told = "".join(outline(page).texts)
    count = int(re.search(r"2,000 start states were drawn and executed: ([\d,]+) runs fail", told)[1].replace(",", ""))
    assert page.count('class="failing"') == count > 0
    assert "The checker accepts" in told
    certificate["region"]["in"].append({EVIL: [0.0, 4.0]})
    file.write_text(json.dumps(certificate))
    rejected = make_report(file, task=task, policy=policy)
    told = "".join(outline(rejected).texts)
    assert "The checker rejects it" in told
    assert "runs fail" not in told
    assert f"0.0 <= {EVIL} <= 4.0" in told


def test_runs_and_faults_have_pages_of_their_own(campaign):
    runs = make_report(campaign / "runs/0.jsonl", task=LINE)
    outline(runs)
    assert json.loads(outline_data(runs))["lines"]
    faults = make_report(campaign / "faults.json", task=LINE)
    outline(faults)
    assert faults.count('<details class="fault"') == len(read_campaign(campaign).faults)
    assert "There may be others" in faults


@pytest.mark.slow
def test_the_checker_may_judge_the_certificate_first(campaign, tmp_path):
    assert "accepted it while this page was written" in make_report(campaign, checked=True)
    shutil.copytree(campaign, tmp_path / "forged")
    (tmp_path / "forged/policy.json").write_bytes((campaign / "policies/0.json").read_bytes())
    forged = make_report(tmp_path / "forged", checked=True)
    assert "Rejected" in forged
    assert ">Safe<" not in forged


def general_certificate(tmp_path, *, mistake=None):
    world = WORLDS["gripper"]
    policy, proof = tmp_path / "policy.txt", tmp_path / "proof.json"
    policy.write_text(world.policy if mistake is None else world.policy.replace(*world.mistakes[mistake][:2]))
    (tmp_path / "domain.pddl").write_text(world.domain)
    problems = []
    for seed in (1, 2):
        problems.append(tmp_path / f"p{seed}.pddl")
        problems[-1].write_text(world.instance(seed))
    run(["generalizes", str(policy), *map(str, problems), "-o", str(proof)])
    return policy, proof


def test_pages_of_general_policies_show_problems_rules_and_ranking(tmp_path, capsys):
    policy, proof = general_certificate(tmp_path)
    page = make_report(proof, task=policy)
    outline(page)
    assert "Holds" in page
    assert all(
        words in page for words in ("p1.pddl", "p2.pddl", "A, c = 0, b &gt; 0 -&gt; c-up", "Lexicographic ranking")
    )
    document = json.loads(proof.read_text())
    for place in document["problems"][0]["places"]:
        place[2] = 0
    proof.write_text(json.dumps(document))
    page = make_report(proof, task=policy)
    assert "Rejected" in page
    assert "p2.pddl</td>" not in page
    with pytest.raises(InputError, match="speaks of a sketch"):
        make_report(proof)


@pytest.mark.parametrize("mistake", WORLDS["gripper"].mistakes)
def test_pages_of_refuted_policies_show_the_run_with_features(mistake, tmp_path, capsys):
    policy, proof = general_certificate(tmp_path, mistake=mistake)
    document = json.loads(proof.read_text())
    assert document["kind"] == "general-refuted"
    page = make_report(proof, task=policy)
    outline(page)
    assert "Refuted" in page
    assert page.count("A = ") == len(document["places"])
    assert all(action in page for action in document["actions"])


def test_pages_of_missed_goals_and_solved_problems_say_so(tmp_path, capsys):
    plan, certificate = plan_certificate(tmp_path, loops=False)
    run(["terminates", str(plan), "--goal", "x == 0", "-o", str(certificate)])
    assert "Reaches the goal" in make_report(certificate, task=plan)
    run(["terminates", str(plan), "--goal", "x >= 7", "-o", str(certificate)])
    page = make_report(certificate, task=plan)
    outline(page)
    assert "Misses the goal" in page
    assert "How it stops outside the goal" in page
    problem, rules = tmp_path / "fall.qnp", tmp_path / "rules.json"
    name = "height-above-ground"
    problem.write_text(f"p\n1 {name} 1\n1 {name} 1\n1 {name} 0\n1\nfall\n1 {name} 1\n1 {name} 0\n")
    run(["synthesize", str(problem), "-o", str(rules), "--certificate", str(certificate)])
    page = make_report(certificate, task=problem, policy=rules)
    outline(page)
    assert "Solves the problem" in page
    assert "<td>height-above-ground&gt;0</td>" in page  # too long for a picture: a number stands for it there
    assert "<title>height-above-ground&gt;0</title>" in page
    assert ">fall</text>" in page


def test_words_and_loops_stay_inside_a_drawing():
    builder = Builder("q")
    for number in range(6):
        builder.edge("q", "q", x=-1 - number, guard="x >= 10 && x <= 200")
    drawing = plan_drawing(builder.build(), {})
    places = [
        (float(x), float(y))
        for x, y in re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)" text-anchor="middle">x', drawing.body)
    ]
    assert len(places) == 6
    assert all(80 <= x <= drawing.width - 80 and 10 <= y <= drawing.height for x, y in places)
