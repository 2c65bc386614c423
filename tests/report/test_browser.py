"""Reports in a real browser: the slider moves, filters work, keys step, hostile names are harmless, axe-core is content."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.domains.catalogue import generate
from polvet.policy.finite_memory import Builder, dump_fmp
from polvet.report import make_report
from tests.report.browser import axe_core, browser, keep_screenshot, look
from tests.report.stories import hostile_campaign, real_campaign

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium():
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of each sort, written once."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"campaign": real_campaign(folder / "line"), "hostile": hostile_campaign(folder / "evil")}
    for name, amount in (("ending", 0), ("looping", 1)):
        plan, made[name] = folder / f"{name}.json", folder / f"{name}-certificate.json"
        built = (
            Builder("q0", name=name).edge("q0", "q1", x=-1).edge("q1", "q0", x=amount).edge("q1", "q2", y=-2).build()
        )
        plan.write_text(json.dumps(dump_fmp(built)))
        run(["terminates", str(plan), "-o", str(made[name])])
    model, made["shield"] = folder / "folline.jani", folder / "shield.json"
    generate("folline", length=12, width=7).write(model)
    run(["permit", str(model.with_suffix(".toml")), "--bound", "0.1", "-o", str(made["shield"])])
    for name, source in made.items():
        (folder / f"{name}.html").write_text(make_report(source))
    return folder


def find(opened, selector):
    return opened.find_element("css selector", selector)


def shown(opened, selector):
    return [one for one in opened.find_elements("css selector", selector) if one.is_displayed()]


def complaints(opened):
    return [entry for entry in opened.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def test_no_table_is_cut_and_no_tile_overflows_at_1200_pixels(chromium, pages):
    look(chromium, pages / "campaign.html", width=1200)
    cut = "return [...document.querySelectorAll('section > .scroll, .tiles > div')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert chromium.execute_script(cut) == 0
    assert len(shown(chromium, "section > .scroll")) >= 3


def test_slider_buttons_and_keys_move_through_the_run(chromium, pages):
    look(chromium, pages / "campaign.html")
    steps = int(find(chromium, "#step").get_attribute("max"))
    assert steps >= 2
    assert find(chromium, "#step-number").text == f"0 of {steps}"
    picture = find(chromium, "#drawing").get_attribute("src")
    assert picture.startswith("data:image/svg+xml")
    assert chromium.execute_script("return document.getElementById('drawing').naturalWidth") > 0
    find(chromium, "#next").click()
    assert find(chromium, "#step-number").text == f"1 of {steps}"
    assert find(chromium, "#drawing").get_attribute("src") != picture
    assert shown(chromium, "#variables td.changed")
    find(chromium, "#step").send_keys("\ue014")  # the right arrow, on the slider
    assert find(chromium, "#step-number").text == f"2 of {steps}"
    find(chromium, "#next").send_keys("\ue012")  # the left arrow, elsewhere
    assert find(chromium, "#step-number").text == f"1 of {steps}"
    find(chromium, "#last").click()
    assert "The run ends: fail." in find(chromium, "#move").text
    find(chromium, "#first").click()
    told = []
    for _ in range(steps):
        told.append(find(chromium, "#move").text)
        find(chromium, "#next").click()
    assert any(text.startswith("Fault:") and "safe would have been" in text for text in told)
    assert complaints(chromium) == []


def test_another_run_starts_at_its_first_step_and_plays(chromium, pages):
    look(chromium, pages / "campaign.html")
    options = chromium.find_elements("css selector", "#run option")
    find(chromium, "#last").click()
    options[-1].click()
    assert find(chromium, "#step-number").text.startswith("0 of ")
    find(chromium, "#play").click()
    assert find(chromium, "#play").get_attribute("aria-pressed") == "true"
    chromium.execute_async_script("setTimeout(arguments[0], 1600)")
    assert not find(chromium, "#step-number").text.startswith("0 of ")
    find(chromium, "#back").click()
    assert find(chromium, "#play").get_attribute("aria-pressed") == "false"


def test_filters_hide_faults_and_count_them(chromium, pages):
    look(chromium, pages / "campaign.html")
    every = len(chromium.find_elements("css selector", ".fault"))
    box = find(chromium, "#fault-filter")
    box.send_keys("truck_0=0")
    some = chromium.execute_script("return document.querySelectorAll('.fault:not([hidden])').length")
    assert 0 < some < every
    assert find(chromium, "#fault-count").text == f"{some} of {every} faults"
    box.clear()
    box.send_keys("no such thing")
    assert not shown(chromium, ".group")
    box.clear()
    box.send_keys(" ")
    assert find(chromium, "#fault-count").text == f"{every} of {every} faults"
    find(chromium, ".fault summary").click()
    assert find(chromium, ".fault img").get_attribute("src").startswith("data:image/svg+xml")


def test_hostile_names_are_shown_and_do_nothing(chromium, pages):
    look(chromium, pages / "hostile.html")
    find(chromium, "#next").click()
    assert chromium.execute_script("return window.hacked") is None
    assert "<script>" in find(chromium, "h1").text
    assert "<script>" in find(chromium, "#variables").text
    assert complaints(chromium) == []


LIGHT, DARK, PHONE = (1100, False), (1100, True), (390, False)


@pytest.mark.parametrize(("name", "width", "dark"), [
    ("campaign", *LIGHT), ("campaign", *DARK), ("campaign", *PHONE), ("hostile", *LIGHT), ("ending", *DARK),
    ("looping", *PHONE), ("shield", *LIGHT), ("shield", 390, True),
])  # fmt: skip
def test_axe_core_finds_nothing_serious_and_nothing_sticks_out(chromium, pages, request, name, width, dark):
    look(chromium, pages / f"{name}.html", width=width, dark=dark)
    chromium.execute_script("document.querySelectorAll('.fault').forEach((one) => { one.open = true; })")
    keep_screenshot(chromium, f"{name}-{width}{'-dark' if dark else ''}")
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    chromium.execute_script(axe_core(request.config.cache.mkdir("axe-core")))
    result = chromium.execute_async_script("axe.run().then(arguments[0])")
    serious = [
        (one["id"], one["nodes"][0]["html"][:200])
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert complaints(chromium) == []
