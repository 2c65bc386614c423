"""A headless Chromium for tests, and axe-core; both are asked for, never copied, and tests skip where they are absent."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.npm import npm_file

SCREENSHOTS = Path(__file__).resolve().parents[2] / "out" / "screenshots"
STILL = {"name": "prefers-reduced-motion", "value": "reduce"}  # no smooth scrolling under a click
ARGUMENTS = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


@contextmanager
def browser() -> Iterator[Any]:
    """Yield a driver; skip where selenium, chromium or its driver is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium for the browser tests")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("apt-get install chromium chromium-driver for the browser tests")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*ARGUMENTS, *(("--no-sandbox",) if os.geteuid() == 0 else ())):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_script_timeout(180)  # axe-core on a busy machine
    try:
        yield opened
    finally:
        opened.quit()


def look(opened: Any, page: Path, *, width: int = 1100, dark: bool = False) -> None:
    """Open the page in a window of that width, light or dark."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, STILL]})
    opened.get(page.resolve().as_uri())


def keep_screenshot(opened: Any, name: str) -> Path:
    """Write what the page looks like, down to 3000 pixels, and return the file."""
    width, height = opened.execute_script("return [innerWidth, Math.min(3000, document.documentElement.scrollHeight)]")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = opened.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    file = SCREENSHOTS / f"{name}.png"
    file.write_bytes(base64.b64decode(shot["data"]))
    return file


def axe_core(cache: Path) -> str:
    """Return axe-core's script."""
    return npm_file(cache, "axe-core@4", "package/axe.min.js")
