"""The built site in a real browser: the chooser, a gallery page, the search and formulas, without a console error."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site):
    """The site over HTTP, on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(site):
    """A browser that this machine has."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra docs-check")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(params=[1280, 400], ids=["wide", "narrow"])
def tab(request, browser, address):
    """A tab; what goes wrong in it fails the test: console errors, exceptions, requests that fail or leave the site."""
    opened = browser.new_page(viewport={"width": request.param, "height": 900})
    wrong: list[str] = []
    opened.on("console", lambda message: message.type == "error" and wrong.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
    opened.on("requestfailed", lambda sent: wrong.append(f"request: {sent.url}: {sent.failure}"))
    opened.on("request", lambda sent: sent.url.startswith((address, "data:")) or wrong.append(f"outside: {sent.url}"))
    opened.on("response", lambda back: back.status >= 400 and wrong.append(f"{back.status}: {back.url}"))
    yield opened
    opened.wait_for_load_state("networkidle")
    shot = os.environ.get("SKSVI_SHOTS")
    if shot:
        opened.screenshot(path=Path(shot) / f"{request.node.name.replace('[', '-').rstrip(']')}.png")
    opened.close()
    assert not wrong, "\n".join(wrong)


def visit(tab, url: str) -> None:
    """Open a page and wait for all that it asks for: leaving earlier would abort requests."""
    tab.goto(url)
    tab.wait_for_load_state("networkidle")


def test_first_page_leads_to_the_chooser_and_on_to_an_estimator(tab, address):
    visit(tab, f"{address}/index.html")
    tab.locator(".sd-card", has_text="Choosing an estimator").click()
    tab.wait_for_url("**/guide/choose.html")
    tab.wait_for_load_state("networkidle")
    assert tab.title().startswith("Choosing an estimator")
    tab.locator("td a", has_text="GMERegressor").first.click()
    tab.wait_for_url("**/sksvi.GMERegressor.html*")
    assert tab.locator("h1").inner_text().startswith("GMERegressor")


def test_pages_are_no_wider_than_the_window(tab, address):
    for page in ("index", "guide/choose", "guide/coming_from/statsmodels", "auto_examples/plot_counts", "glm"):
        visit(tab, f"{address}/{page}.html")
        widths = tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert widths[0] <= widths[1], f"{page} is {widths[0]} wide in a window of {widths[1]}"


def test_gallery_has_thumbnails_and_pictures(tab, address):
    visit(tab, f"{address}/auto_examples/index.html")
    thumbnails = tab.locator(".sphx-glr-thumbcontainer img")
    assert thumbnails.count() >= 16
    tab.locator(".sphx-glr-thumbcontainer a", has_text="Negative binomial regression").first.click()
    tab.wait_for_url("**/plot_counts.html*")
    images = tab.locator(".bd-article img")
    assert images.count() >= 1
    for number in range(images.count()):
        images.nth(number).scroll_into_view_if_needed()
        assert images.nth(number).evaluate("image => image.decode().then(() => image.naturalWidth)") > 100


def test_search_finds(tab, address):
    visit(tab, f"{address}/search.html?q=exposure")
    tab.wait_for_selector("#search-results ul.search li a", timeout=15_000)
    assert tab.locator("#search-results li a", has_text="Count regression with exposure").count() >= 1


def test_formulas_are_set(tab, address):
    visit(tab, f"{address}/glm.html")
    tab.wait_for_selector("mjx-container", timeout=15_000)
    tab.wait_for_load_state("networkidle")
    assert tab.locator("mjx-container").count() > 20
    assert tab.locator("mjx-merror").count() == 0
