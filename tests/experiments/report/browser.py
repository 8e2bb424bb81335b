"""Headless Chromium for the report's tests, through Selenium and the system's own driver.

Debian's `chromium` and `chromium-driver` are enough; nothing is downloaded. Every browser gets a fresh profile, is
forbidden to resolve any name, and records what its page logs and requests.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no Chromium here: install the packages chromium and chromium-driver (Debian's names)",
)
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--window-size=1200,900", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip


class Page:
    """A page under test."""

    def __init__(self, driver: webdriver.Chrome):
        self.driver = driver

    def open(self, url: str) -> None:
        """Load and wait until the lineage is drawn."""
        self.driver.get_log("performance")
        self.driver.get(url)
        self.wait(lambda: self.js("return document.querySelectorAll('.nodes circle').length") > 0)

    def js(self, script: str, *arguments: object) -> object:
        """Run a function body in the page."""
        return self.driver.execute_script(script, *arguments)

    def click_node(self, index: int) -> None:
        """Click a node of the lineage, by the candidate's position."""
        self.js(
            "document.querySelector(`.nodes circle[data-index='${arguments[0]}']`)"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))",
            index,
        )

    def diff(self, kind: str) -> object:
        """The lines of the open diff that were `removed` or `added`."""
        return self.js(
            "return [...document.querySelectorAll(`.diff tr.${arguments[0]} code`)].map(c => c.textContent)",
            kind,
        )

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.js("return document.querySelector(arguments[0]).textContent", selector))

    def wait(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Until the condition holds; fails after `seconds`."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "the page did not get there"
            time.sleep(0.02)

    def problems(self) -> list[str]:
        """Everything in the console that is a warning or worse (policy violations included)."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("WARNING", "SEVERE")
        ]

    def requests(self) -> list[str]:
        """Addresses asked for since the last `open`, those of the browser's own pages and data: aside."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith(("data:", "chrome://"))]


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A browser with a profile of its own, closed at the end."""
    options = Options()
    options.binary_location = CHROMIUM or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Page(driver)
    finally:
        driver.quit()
