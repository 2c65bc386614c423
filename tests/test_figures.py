"""Figures in prose are those of the results: what was measured stands in `benchmarks/results/`, and pages repeat it rightly.

`CLAIMS` has, for each page, sentences with a `{}` for each figure and where the figures come from. A page must hold the sentence as
the results fill it in; and a number with a unit (seconds, times, MB, ...) that is in no such sentence must be one that `NOT_MEASURED`
names: a limit, a default, a level of confidence, somebody else's figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from benchmarks import control, portfolio, predicate_abstraction_page, verification, verification_loop
from benchmarks.table_two import bars, campaigns

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
RUN_BY_TESTS = re.compile(r"docs/(tutorial-.*|extending|references)\.md")  # what these print is compared elsewhere
MEASURE = re.compile(
    r"\b\d[\d,.]*(?:(?:,| to| and| or) \d[\d,.]*)*(?: ?%|x\b| "
    r"(?:s|ms|µs|microseconds|seconds|minutes|hours|h|times|MB|GB|bytes|million|CPU|per cent)\b)"
)


@cache
def results(name: str) -> Any:
    """Return what `benchmarks/results/NAME.json` holds."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


# -- where figures come from


def generalising(row: str, how: str) -> Any:
    ways = next(one["ways"] for one in results("generalising") if one["row"] == row)
    return next(way for way in ways if way["how"] == how)


def checked_in(row: str) -> float:
    return float(generalising(row, "all")["note"].partition("accepted in ")[2].partition(" s")[0])


def kept_by_retraining() -> tuple[str, ...]:
    kept = [generalising(row, "retrain")["kept_percent"] for row in ("Beluga (8 jigs)", "Beluga (6 jigs)")]
    return tuple(f"{share:.0f}" for share in kept)


def questions(kind: str, peer: str) -> Any:
    lines = results("queries")["summary"]
    return next(line for line in lines if line["kind"] == kind and line["peer"].startswith(peer))


def asked_of_marabou() -> tuple[str, ...]:
    line = questions("network", "marabou")
    assert line["contradictions"] == 0
    low, _, high = line["slower_by_quartiles"]
    counts = (line[key] for key in ("questions", "polvet_answered", "peer_answered"))
    return (*map(str, counts), f"{line['slower_by']:,.0f}", f"{low:,.0f}", f"{high:,.0f}")


def asked_of_veritas() -> tuple[str, ...]:
    small, large = questions("boxes", "veritas"), questions("large", "veritas")
    assert round(small["slower_by"]) == 2
    assert round(large["slower_by"]) == 1
    return (*(str(small["compared"]), str(large["compared"]), str(large["questions"])), str(large["polvet_answered"]))


def exploring() -> tuple[str, ...]:
    rows = results("exploring")
    sizes = [row["states"] / 1e6 for row in rows]
    one_word = [row["now"] for row in results("memory")["rows"] if row["words"] == 1]
    ratios = (median(row[key] for row in rows) for key in ("build_ratio", "enumerate_ratio"))
    return (*_span(sizes), *(f"{ratio:.0f}" for ratio in ratios), *_span(one_word))


def debugging(name: str, variant: str = "default") -> Any:
    return results("debugging")[name][variant]


def debugged() -> tuple[str, ...]:
    rows = [row["default"] for row in results("debugging").values()]
    safe = [row["seconds"] for row in rows if row["outcome"] == "safe"]
    return f"{len(rows)}", f"{len(safe)}", f"{median(safe):.0f}"


def by_the_recipe() -> tuple[str, ...]:
    known = results("table-two")
    ours, theirs = (list(bars(known, campaigns(known), loop).values()) for loop in ("polvet", "paper"))
    return str(ours.count("yes")), str(len(ours) - ours.count("-")), str(theirs.count("yes"))


def belugas() -> tuple[str, ...]:
    return (
        f"{debugging('Beluga (5 Jigs)')['seconds']:.0f}",
        f"{debugging('Beluga (6 Jigs)')['seconds']:.0f}",
        f"{debugging('Beluga (8 Jigs)', '5-free')['seconds']:.0f}",
    )


def lines_after() -> tuple[str, ...]:
    rows = {name: row["default"]["unsafe_after"] for name, row in results("debugging").items() if "way line" in name}
    hopeless = [after for name, after in rows.items() if name.startswith("1 way") and name.endswith("Icy")]
    return f"{max(set(rows.values()) - set(hopeless)):g}", f"{min(hopeless):.0f}"


def cars_and_poles() -> tuple[str, ...]:
    named = ("Inverted Pendulum", "Follow Car")
    return (f"{max(r['default']['unsafe_after'] for n, r in results('debugging').items() if n.startswith(named)):g}",)


def shields() -> tuple[str, ...]:
    ratios = [row["smt"]["seconds"] / row["default"]["seconds"] for row in results("shields")["instances"]]
    return f"{min(ratios):.0f}", f"{max(ratios):,.0f}"


def milp_allows_more() -> tuple[str, ...]:
    rows = {row["instance"]: row for row in results("shields")["instances"]}
    more = {
        name
        for name, row in rows.items()
        if max(row["smt"]["count"] or 0, row["milp"]["count"]) > row["default"]["count"]
    }
    assert more == {"comexp 6,6,6"}
    row = rows["comexp 6,6,6"]
    return row["limit"].removesuffix(" each"), f"{100 * (row['milp']['count'] / row['default']['count'] - 1):.1f}"


def gathered() -> tuple[str, ...]:
    course = [row["goal_percent"] for row in results("usefulness")["resources"]["course"]]
    return f"{course[0]:.0f}", f"{course[-1]:.0f}", f"{min(course):.0f}"


def useful() -> tuple[str, ...]:
    found = results("usefulness")["random"]
    near = (f"{found['summary'][name]['within_a_point_of_the_best']}" for name in ("after", "goal", "before"))
    return f"{found['worlds']}", *near


def cluster() -> tuple[str, ...]:
    found = results("scale")
    heads = [one["head"] / row["chunks"] * 1000 for row in found["rows"] for one in row["workers"].values()]
    more = [row["chunked"] / row["alone"] for row in found["rows"]]
    return (
        *_span(list(found["start_wall"].values())),
        f"{max(found['empty_chunk'].values()) * 1000:.0f}",
        *_span(heads),
        *_span(more, 1),
    )


def chunks() -> tuple[str, ...]:
    rows = results("scale")["rows"]
    heads = [max(one["head"] for one in row["workers"].values()) for row in rows]
    gains = [row["chunked"] / head for row, head in zip(rows, heads, strict=True)]
    return *_span([row["chunked"] / row["chunks"] * 1000 for row in rows]), *_span(gains)


def loop(name: str, key: str = "cpu_seconds") -> str:
    """Return a figure of a final policy of the debugging loop, if it was proved and its evidence was accepted."""
    row = results("verification-loop")[name]
    assert (row["verdict"], row["checked"]) == ("safe", "accepted")
    return f"{row[key]:,}" if isinstance(row[key], int) else f"{row[key]:g}"


def loops_by_method() -> tuple[str, ...]:
    rows = results("verification-loop").values()
    safe = [row for row in rows if row["verdict"] == "safe" and row["checked"] == "accepted"]
    assert len(rows) == len(safe)
    counts = (sum(row["method"] == method for row in safe) for method in ("projection", "explicit", "induction"))
    return f"{len(rows)}", *map(str, counts), *_span([row["cpu_seconds"] for row in safe])


def control_proofs() -> tuple[str, ...]:
    """Return how many rows of control end proved safe, as trained, debugged and by a fence, and in what time."""
    rows = results("control").values()
    last = [control.best_of(row) for row in rows]
    safe = [one for one in last if one["verdict"] == "safe"]
    assert {(one["checked"], one["sampled_failing"]) for one in safe} == {("accepted", 0)}
    trained = sum(control.best_of(row) is row["trained"] for row in rows if control.best_of(row)["verdict"] == "safe")
    fenced = sum(one["fenced"] for one in safe)
    proved, checked = _span([one["cpu_seconds"] for one in safe]), max(one["check_cpu_seconds"] for one in safe)
    return (
        f"{len(safe)}",
        f"{len(last)}",
        f"{trained}",
        f"{len(safe) - trained}",
        f"{fenced}",
        *proved,
        f"{checked:.0f}",
    )


def control_failing() -> tuple[str, ...]:
    """Return the sampled failing starts of trained policies that were debugged, and the seconds after which the last row is open."""
    rows = results("control")
    debugged = [row for row in rows.values() if "debugged" in row]
    assert {row["trained"]["verdict"] for row in debugged} == {"unsafe"}
    open_ = [name for name, row in rows.items() if control.best_of(row)["verdict"] == "unknown"]
    assert open_ == ["Follow Car (0.01)"]
    share = [row["trained"]["sampled_failing"] / control.SAMPLED * 100 for row in debugged]
    return f"{min(share):.2f}", f"{max(share):.0f}", f"{control.best_of(rows[open_[0]])['cpu_seconds']:.0f}"


def control_regions() -> tuple[str, ...]:
    """Return which share of the starts is proved of each policy that is unsafe as trained, and which lies beside starts that fail."""
    rows = results("control")
    unsafe = [name for name, row in rows.items() if control.is_unsafe(row)]
    assert unsafe == ["Bouncing Ball (0.05)", "Inverted Pendulum (0.1)", "Follow Car (0.05)", "Follow Car (0.4)"]
    regions = [rows[name]["region"] for name in unsafe]
    assert {region.get("checked", "accepted") for region in regions} == {"accepted"}
    shares = (f"{100 * region['volume'][part]:.1f}" for region in regions for part in ("proved", "unsafe"))
    checked = max(region.get("check_cpu_seconds", 0.0) for region in regions)
    return (*shares, *_span([region["limit"] for region in regions]), f"{checked:.0f}")


def seconds_of(method: str, *names: str, places: int = 0) -> tuple[str, ...]:
    """Return in how many seconds a method proved these instances of `benchmarks.verification`."""
    rows = {row["instance"]: row for row in results("verification")["methods"] if row["method"] == method}
    assert all(rows[name]["verdict"] == "safe" for name in names)
    return tuple(f"{rows[name]['seconds']:.{places}f}" for name in names)


def limits_of(*methods: str) -> tuple[str, ...]:
    return _span([row["limit"] for row in results("verification")["methods"] if row["method"] in methods])


def configurations() -> tuple[str, ...]:
    rows = [row for row in results("verification")["methods"] if row["method"] in PAPERS]
    decided = {(row["method"], row["instance"]) for row in rows if row["verdict"].startswith("safe")}
    assert len({method for method, _ in decided}) == 1
    return min(method for method, _ in decided), f"{len(decided)}", f"{len({row['instance'] for row in rows})}"


def decided_in_print() -> tuple[str, ...]:
    rows = results("verification-loop").values()
    return f"{len(rows)}", f"{sum(row['paper'] == 'safe' for row in rows)}"


def puzzles() -> tuple[str, ...]:
    rows = [
        r for r in results("verification")["methods"] if r["method"] == "auto" and "sliding-tiles-8" in r["instance"]
    ]
    assert {(row["verdict"], row["by"]) for row in rows} == {("safe", "explicit")}
    return _span([row["seconds"] for row in rows])


def turns() -> tuple[str, ...]:
    """Return what `auto` decides within the shortest limit, now and before, and with longer ones; nothing is lost."""
    rows = [row for row in results("portfolio") if row["method"] == "auto"]
    decided = {
        label: {
            (row["instance"], row["limit"]) for row in rows if row["label"] == label and row["verdict"] != "unknown"
        }
        for label in portfolio.LABELS
    }
    assert decided["before"] <= decided["after"]
    alone = [row for row in results("portfolio") if row["method"] != "auto" and row["verdict"] != "unknown"]
    for row in (row for row in rows if row["label"] == "after"):
        quick = [
            one
            for one in alone
            if one["instance"] == row["instance"] and one["seconds"] <= row["limit"] / portfolio.PART
        ]
        assert not quick or row["verdict"] != "unknown"
    short, *longer = portfolio.LIMITS
    count = {
        (label, limit): sum(one == limit for _, one in decided[label])
        for label in portfolio.LABELS
        for limit in portfolio.LIMITS
    }
    asked = {limit: len({row["instance"] for row in rows if row["limit"] == limit}) for limit in portfolio.LIMITS}
    assert {count[label, limit] for label in portfolio.LABELS for limit in longer} == {asked[longer[0]]}
    shown = (asked[short], count["after", short], short, count["before", short], asked[longer[0]])
    return tuple(f"{one:g}" for one in shown)


def proved_starts() -> tuple[str, ...]:
    """Return the start states of an unsafe network by deep Q-learning, how many are proved, and how many are shown unsafe."""
    name = "one-way-line-8-5-2x32-dqn-short"
    row = next(r for r in results("predicate-abstraction") if (r["part"], r["instance"]) == ("starts", name))
    assert row["certificate"]
    return tuple(f"{row[key]:,}" for key in ("starts", "proved", "failing"))


def agreeing() -> tuple[str, ...]:
    """Return on how many cells an exact configuration of the paper answers: it builds what our engine builds."""
    rows = [r for r in results("predicate-abstraction") if r["part"] == "growth" and "stopped" not in r]
    ours = {(r["instance"], r["predicates"]): r for r in rows if r["solver"] == "boxes"}
    exact = [
        r for r in rows if r["solver"] in PAPERS and r["solver"] != "Mar" and (r["instance"], r["predicates"]) in ours
    ]
    for row in exact:
        same = ours[row["instance"], row["predicates"]]
        assert all(row[key] == same[key] for key in ("states", "starts", "proved", "unsafe"))
    return (f"{len(exact)}",)


def marabou() -> tuple[str, ...]:
    told = results("verification")["summary"]["BnB(Mar)"]
    assert told["differing"] == 0
    return f"{told['answered']}", f"{told['asked']}", f"{round(told['ratio'], -2):.0f}"


def analysis(name: str) -> tuple[str, ...]:
    row = next(r for r in results("fuzzing")["Fault analysis of 10,000 unsafe runs"] if r["benchmark"] == name)
    assert row["open"] == 0
    return f"{row['states']:,}", f"{row['analysis s']:.0f}"


def won(world: str) -> tuple[str, ...]:
    row = next(row for row in results("large-games")["rows"] if row["world"] == world)
    plain, sharp = row["plain"], row["sharpened"]
    assert plain["proved"] == sharp["proved"] == row["asked"]
    sizes = (f"{one['megabytes']:g}" for one in (sharp, plain))
    return f"{row['asked']}", *sizes, *(f"{one['check_cpu_seconds']:g}" for one in (sharp, plain))


def attack() -> tuple[str, ...]:
    found = results("attack")
    return f"{found['tried']:,}", f"{len(found['kinds'])}", f"{found['accepted']}"


def _span(values: list[float], places: int = 0) -> tuple[str, str]:
    return f"{min(values):.{places}f}", f"{max(values):.{places}f}"


PAPERS = ("Base", "Mar+Z3", "Mar+Z3(Mar)", "BnB(Mar)", "Mar")
OURS = ("auto", "explicit", "induction", "ic3", "abstraction")
TRANSPORT = tuple(f"transport-10-15-2x{width}" for width in (16, 32, 64))
AWARE = tuple(f"blocksworld-8-ca-2x{width}" for width in (16, 32, 64))

CLAIMS: dict[str, list[tuple[str, Callable[[], tuple[str, ...]]]]] = {
    "README.md": [
        (
            "ten models of {} to {} million states ([table](benchmarks/results/exploring.md)): sparse MDPs are built {} times as fast in "
            "the median; enumerating states without a matrix, for which Storm has no counterpart, runs at {} times the rate of its build, "
            "at {} to {} bytes per state that packs into one word",
            exploring,
        ),
        ("on the {} benchmarks of the paper on safety debugging", lambda: debugged()[:1]),
        ("{} of them end *safe*, certified for all of their start states, half of these within {} seconds", lambda: debugged()[1:]),
        ("Beluga with 5 jigs takes {} seconds (", lambda: belugas()[:1]),
        (
            "makes it *safe* from all 40,320 orders in {:.0f} CPU seconds, and its certificate is checked in {:.0f}",
            lambda: (generalising("Beluga (8 jigs)", "all")["seconds"], checked_in("Beluga (8 jigs)")),
        ),
        (
            "the policies of {} of {} rows where there is something to show end with at most 1 % of unsafe starts and as often at the goal "
            "as before; by the paper's loop, those of {}.",
            by_the_recipe,
        ),
        ("with 6 jigs {} seconds (there Gurobi timed out), with 8 jigs, three of them in their places, {} seconds", lambda: belugas()[1:]),
        (
            "to at most {} % unsafe starts, but for icy one-way lines without parking, where most starts are lost whatever the policy does "
            "(at least {} % unsafe)",
            lines_after,
        ),
        ("Cars and poles (real values, 1,000 steps) fall to {} %", cars_and_poles),
        ("{} to more than {} times as fast as its SMT encoding", shields),
    ],
    "docs/boxes.md": [
        ("everybody with {:g} CPU seconds per question", lambda: (results("queries")["limit"],)),
        (
            "Of {} questions about ReLU networks polvet answers {} and Marabou {}, none of them differently; on these Marabou takes "
            "{} times as long (geometric mean; quartiles {} to {})",
            asked_of_marabou,
        ),
        (
            "about twice as long on {} questions about 15 rounds of trees, as long as polvet on the {} of {} questions about 50 rounds "
            "that both answer, where polvet answers {}",
            asked_of_veritas,
        ),
    ],
    "docs/repair.md": [
        ("of its right decisions on Beluga's runs, the new one takes {} to {} % as well", kept_by_retraining),
        (
            "for the two-way line with 40 places and 25 packages it is found in {} CPU seconds and checked in {}",
            lambda: (loop("2 way line (40, 25)"), loop("2 way line (40, 25)", "check_cpu_seconds")),
        )
    ],
    "docs/safety.md": [
        (
            "Of {} start states of the icy one-way line with parking (40, 25) the proof has {} MB in place of {} MB, and is "
            "checked in {} CPU seconds in place of {}",
            lambda: won("one-way-line n=40 p=25 icy park"),
        ),
        ("On the two-way line (40, 25), the {} states of 10,000 unsafe runs are judged in {} s", lambda: analysis("2 way line (40, 25)"))
    ],
    "docs/scale.md": [
        (
            "What a cluster costs: {} to {} s until one of its own is up (none where it runs already), about {} ms of the head's CPU time "
            "for an empty chunk, and {} to {} ms for the chunks above with their results, which are merged one after the other. In chunks "
            "the same work takes {} to {} times the CPU time",
            cluster,
        ),
        ("For the small chunks above ({} to {} ms) that is a factor of {} to {},", chunks),
    ],
    "docs/debugging.md": [
        (
            "of the rows where there is something to show, {} of {} end hardly unsafe (undecided starts count as unsafe) and reach the "
            "goal as before, with the paper's loop {}.",
            by_the_recipe,
        ),
        ("a LightGBM policy goes from {}% to {}% by this, where repairs of the safety faults alone left {}%", gathered),
        (
            "Over {} random worlds, made so that it is easy to lose the goal and with the best safe policy known, {} final policies "
            "come within a point of it, {} with `--kind goal`, and {} by the version before",
            useful,
        ),
    ],
    "docs/shields.md": [
        ("this is {} to more than {} times as fast as the SMT route in the same run", shields),
        ("on ComExp 6,6,6 the MILP, in its {}, allows {}% more", milp_allows_more),
    ],
    "docs/trust.md": [("{} of all {} kinds, {} accepted (`benchmarks/results/attack.json`)", attack)],
    "docs/verification.md": [
        (
            "The final policy of Beluga with 6 jigs ({} states) took {} CPU seconds and {} MB",
            lambda: tuple(loop("Beluga (6 Jigs)", key) for key in ("states", "cpu_seconds", "megabytes")),
        ),
        (
            "the two-way line with 40 places and 25 packages in {} CPU seconds, with ice in {}",
            lambda: (loop("2 way line (40, 25)"), loop("2 way line (40, 25) Icy")),
        ),
        (
            "limits of {} to {} s for our methods and of {} to {} s for the paper's configurations",
            lambda: (*limits_of(*OURS), *limits_of(*PAPERS)),
        ),
        ("2x16, 2x32 and 2x64 is proved in {}, {} and {} s (`ic3`)", lambda: seconds_of("ic3", *TRANSPORT, places=2)),
        (
            "Blocksworld with 6 and 8 blocks in {} and {} s",
            lambda: seconds_of("ic3", "blocksworld-6-ci-2x16", "blocksworld-8-ci-2x16"),
        ),
        ("a cost-aware policy of 2x16, 2x32 and 2x64 in {}, {} and {} s (`induction`)", lambda: seconds_of("induction", *AWARE)),
        ("the 8-puzzle in {} to {} s", puzzles),
        ("Of the paper's configurations one ({}) decides {} of {} instances", configurations),
        ("Of these {} the paper's verification decides {}", decided_in_print),
        ("On the {} of {} single questions that both answer, Marabou with branch and bound takes {} times as long", marabou),
        (
            "all {} are proved, with evidence that the checker accepts: {} by `projection`, {} by `explicit` and {} by "
            "`induction`, in {} to {} CPU seconds",
            loops_by_method,
        ),
        ("of {} of a network by deep Q-learning {} are proved safe and {} shown unsafe", proved_starts),
        ("configurations build is what our engine builds, on all {} cells that both answer", agreeing),
        ("with limits of {:g}, {:g} and {:g} CPU seconds", lambda: portfolio.LIMITS),
        ("of {} instances it decides {} within {} seconds, which were {}, and all {} that were asked with more", turns),
        (
            "{} of {} end proved safe, {} as they were trained and {} as `polvet debug` left them, {} of these by a fence: in {} to {} CPU "
            "seconds, checked in at most {}",
            control_proofs,
        ),
        (
            "Of the trained policies that were debugged, {}% to {}% of sampled runs fail; the car with a time step of 0.01, of which none "
            "does, is open after {} CPU seconds",
            control_failing,
        ),
        (
            "{}% of the start set of the ball are proved safe ({}% lie in cells with a start that fails), {}% of the pendulum's "
            "({}%), {}% of the car's with a time step of 0.05 ({}%) and {}% with 0.4 ({}%), with limits of {} to {} CPU seconds; "
            "certificates are checked in at most {}",
            control_regions,
        ),
    ],
}  # fmt: skip

NOT_MEASURED: dict[str, tuple[str, ...]] = {
    "README.md": ("the paper: 45 h of Gurobi and 5 h of",),
    "docs/debugging.md": ("the table shows the 95% interval",),
    "docs/exit-codes.md": ("its share of the time limit of 240 s",),
    "docs/faq.md": ("The evaluation says 0% unsafe",),
    "docs/fuzzing.md": ("each with a 95% *confidence sequence*",),
    "docs/gate.md": ("percentages with their 95% interval",),
    "docs/repair.md": ("(at most 120 s)",),
    "docs/scale.md": ("once it lasts longer than 2 ms", "a chunk of 1 s against 10 ms at the head"),
    "docs/shields.md": ("spends about 70% on the search",),
    "docs/termination.md": ("it is given 60 s",),
    "docs/trust.md": ("at most 1,000,000 bytes", "400 levels, 256 MB", "(20 minutes)"),
}


def prose(page: str) -> str:
    """Return a page without blocks of code, in one line."""
    return re.sub(r"\s+", " ", re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL))


def covered(page: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a page that are compared with results, or named as no measurements."""
    known = [sentence.format(*figures()) for sentence, figures in CLAIMS.get(page, [])]
    for part in (*known, *NOT_MEASURED.get(page, ())):
        begin = text.find(part)
        assert begin >= 0, f"{page} does not say: {part}"
        yield begin, begin + len(part)


@pytest.mark.parametrize("page", PAGES)
def test_figures_in_prose_are_those_of_the_results(page):
    text = prose(page)
    parts = list(covered(page, text))
    if RUN_BY_TESTS.fullmatch(page):
        return
    for number in MEASURE.finditer(re.sub(r"`[^`]*`", lambda code: " " * len(code[0]), text)):
        inside = any(begin < number.end() and number.start() < end for begin, end in parts)
        assert inside, f"{page}: no results file is named for '{text[max(number.start() - 60, 0) : number.end() + 20]}'"


@pytest.mark.parametrize("page", sorted({*CLAIMS, *NOT_MEASURED}))
def test_claims_name_pages_that_are_there(page):
    assert page in PAGES


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("control", control),
        ("portfolio", portfolio),
        ("verification", verification),
        ("verification-loop", verification_loop),
    ],
)
def test_pages_of_results_are_made_of_their_figures(name, script):
    page = ROOT / "benchmarks" / "results" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == script.table(results(name))


def test_the_page_of_policy_predicate_abstraction_is_made_of_its_figures():
    folder = ROOT / "benchmarks" / "results"
    text = (folder / "predicate-abstraction.md").read_text(encoding="utf-8")
    versions = re.search(r"one thread, (.*?)\. `-`", text)
    assert versions is not None
    rows = results("predicate-abstraction")
    assert text == predicate_abstraction_page.page(rows, versions[1])
    shown = {file: picture for file, picture in predicate_abstraction_page.pictures(rows)}
    assert {file: (folder / file).read_text(encoding="utf-8") for file in shown} == shown
    assert set(shown) == {file.name for file in folder.glob("predicate-abstraction-*.svg")}
    assert all(f"]({file})" in text for file in shown)
