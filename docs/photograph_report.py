"""Photograph the demo's report for the README: docs/report.png. Needs selenium, chromium and its driver.

Run it from the repository's root, after make demo: python -m docs.photograph_report
"""

from __future__ import annotations

import base64
from pathlib import Path

from tests.report.browser import browser, look

REPORT, PICTURE = Path("out/demo/report.html"), Path("docs/report.png")


def main() -> None:
    """Step to the fault of the first run and keep what the page looks like down to the end of the replay."""
    with browser() as opened:
        look(opened, REPORT, width=980)
        opened.execute_script(
            "const next = document.getElementById('next');"
            "for (let k = 0; k < 200 && !document.getElementById('move').textContent.startsWith('Fault'); k += 1) next.click();"
        )
        end = opened.execute_script("return document.getElementById('faults').getBoundingClientRect().top + scrollY")
        clip = {"x": 0, "y": 0, "width": 980, "height": end, "scale": 1}
        shot = opened.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        PICTURE.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
