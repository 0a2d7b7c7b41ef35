"""Every link inside the built site leads somewhere, and nothing that a page needs comes from elsewhere."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser loads by itself: attributes of elements.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
#: Kinds of <link> that a browser loads.
SHEETS = {"stylesheet", "preload", "icon", "shortcut icon", "modulepreload", "manifest"}


class Page(HTMLParser):
    """Links, what is loaded, and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {key: value or "" for key, value in attrs}
        self.anchors |= {named[key] for key in ("id", "name") if key in named}
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        if named.get(LOADED.get(tag, "")):
            self.loads.append(named[LOADED[tag]])
        if tag == "link" and named.get("rel", "").lower() in SHEETS:
            self.loads.append(named["href"])


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def pages(site: Path) -> list[Path]:
    found = sorted(path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)
    assert len(found) > 100
    return found


def broken(path: Path, href: str) -> str | None:
    """What is wrong with a link inside the site."""
    parts = urlsplit(href)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return "no such file"
    fragment = unquote(parts.fragment)
    if not fragment or target.suffix != ".html" or fragment.startswith(":~:"):
        return None
    return None if fragment in page(target).anchors or "#" + fragment == "#" else "no such anchor"


def test_links_inside_the_site_lead_somewhere(site):
    wrong, looked_at = [], 0
    for path in pages(site):
        found = page(path)
        looked_at += len(found.links)
        for href in {*found.links, *found.loads}:
            if problem := broken(path, href):
                wrong.append(f"{path.relative_to(site)}: {href}: {problem}")
    assert not wrong, "\n".join(wrong[:50])
    assert looked_at > 10_000


def test_nothing_that_a_page_needs_comes_from_elsewhere(site):
    outside = {
        f"{path.relative_to(site)}: {source}"
        for path in pages(site)
        for source in page(path).loads
        if urlsplit(source).netloc
    }
    assert not outside, "\n".join(sorted(outside)[:20])
    for sheet in (site / "_static").rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert "url(http" not in text and "@import url(" not in text, f"{sheet} loads from elsewhere"


def test_links_to_elsewhere_are_whole_addresses(site):
    """Their form alone: whether they answer cannot be asked without a network."""
    wrong = []
    for path in pages(site):
        for href in page(path).links:
            parts = urlsplit(href)
            if parts.scheme and (
                parts.scheme not in {"http", "https", "mailto"}
                or (parts.scheme != "mailto" and "." not in parts.netloc)
            ):
                wrong.append(f"{path.relative_to(site)}: {href}")
    assert not wrong, "\n".join(wrong[:20])


def test_pages_are_read(tmp_path):
    text = '<a href="b.html#x">b</a><img src="i.png"><h1 id="top"></h1><link rel="stylesheet" href="s.css">'
    (tmp_path / "a.html").write_text(text)
    (tmp_path / "b.html").write_text('<p id="y">')
    found = page(tmp_path / "a.html")
    assert (found.links, found.loads, found.anchors) == (["b.html#x"], ["i.png", "s.css"], {"top"})
    assert broken(tmp_path / "a.html", "b.html#x") == "no such anchor"
    assert broken(tmp_path / "a.html", "b.html#y") is None
    assert broken(tmp_path / "a.html", "c.html") == "no such file"
