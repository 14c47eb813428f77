"""A real browser for pages: how one is started, and how a test talks to it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1280,900"),
)


@contextmanager
def started(profile: Path) -> Iterator[Any]:
    """Chromium and its driver from the system (Debian: chromium, chromium-driver).

    Where they are not there the test is skipped, unless PAGEDSIM_BROWSER is "required".
    """
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        missing = "no Chromium with its driver here (Debian: chromium, chromium-driver)"
        if os.environ.get("PAGEDSIM_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    # a window that nobody looks at is not told of its focus, in some versions
    opened.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    try:
        yield opened
    finally:
        opened.quit()


def opened(browser: Any, page: Path, **media: str) -> None:
    """Open it, at desktop width, and forget what was said before."""
    features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(page.as_uri())


def screen(browser: Any, width: int) -> None:
    """A screen of that width, of a phone where it is below 600."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def until(told: Callable[[], Any], seconds: float = 20) -> Any:
    """What `told` says once it is true."""
    end = time.monotonic() + seconds
    while not (said := told()) and time.monotonic() < end:
        time.sleep(0.05)
    return said


def press(browser: Any, key: str) -> None:
    """A key, where the focus is."""
    browser.switch_to.active_element.send_keys(key)


def asked(browser: Any) -> list[str]:
    """What the page asked for since it was opened, itself included."""
    told = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [each["params"] for each in told if each["method"] == "Network.requestWillBeSent"]
    return [each["request"]["url"] for each in sent]
