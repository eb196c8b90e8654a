"""A page of the book in headless Chromium: everything about it that a reader would stumble over."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
from PIL import Image

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESK, PHONE = 1400, 390
HEIGHT = 900
SHEETS, HIGH = 16, 11000
"""Most sheets of a page with its code and every tab; no page that is lower needs more of them.

A sheet of our pages holds 790 to 1,170 CSS pixels of the screen's height.
"""
SCALE = 0.5
"""Pixels of a screenshot per CSS pixel: enough to see whether a picture is of one colour."""
ESCAPES = re.compile(r"\x1b\[|(?<![\w\[])\[\d+(?:;\d+)*m")
IDENTIFIER = re.compile(r"\b(?:id|name)=\"([^\"]+)\"")
FLATTEST = 3.0
"""Standard deviation of grey values, of 255, below which a picture shows nothing."""
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa")
KNOWN = {
    "aria-deprecated-role": "docutils gives entries of a bibliography the role doc-biblioentry",
    "aria-required-children": "docutils makes a bibliography a list of such entries",
}
"""Axe's rules that no page of ours can mend, each with the reason."""

OPENED = """() => {
  for (const each of document.querySelectorAll('details')) each.open = true;
  const style = document.createElement('style');
  style.textContent = '.sd-tab-content{display:block!important}'
    + '*{transition:none!important;animation:none!important}';
  document.head.append(style);
}"""
WIDE = """() => {
  const column = document.querySelector('.bd-article') ?? document.body;
  const right = Math.min(column.getBoundingClientRect().right, innerWidth) + 1;
  const scrolls = (each) => {
    for (let up = each.parentElement; up && up !== column; up = up.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(up).overflowX)
          && up.getBoundingClientRect().right <= right) return true;
    }
    return false;
  };
  const found = [];
  const all = column.querySelectorAll('img, svg, video, canvas, table, pre');
  for (const each of all) {
    const box = each.getBoundingClientRect();
    if (each.parentElement.closest('svg') || !box.width || box.right <= right) continue;
    if (each.matches('table, pre, .headbook-view svg') && scrolls(each)) continue;
    found.push(`${each.tagName.toLowerCase()} ${each.className.baseVal ?? each.className} reaches `
      + `${Math.round(box.right)} of ${Math.round(right)} px`);
  }
  const page = document.documentElement.scrollWidth;
  if (page > innerWidth + 1) found.push(`the page scrolls sideways: ${page} of ${innerWidth} px`);
  return found;
}"""
PICTURES = """() => [...document.querySelectorAll(
    '.bd-article img, .bd-article svg, .bd-article canvas')]
  .filter((each) => !each.parentElement.closest('svg, .board, button'))
  .map((each) => {
    const box = each.getBoundingClientRect();
    return [box.x + scrollX, box.y + scrollY, box.width, box.height];
  }).filter(([x, y, width, height]) => width >= 60 && height >= 40)"""
HIGHEST, LATEST = 450, 900
FIGURES = """([highest, latest]) => {
  const kinds = ['view', 'figure', 'film', 'scroll'].map((each) => `.headbook-${each}`);
  const drawn = [...document.querySelectorAll(`.bd-article :is(${kinds})`)];
  const shown = drawn.filter((each) => each.checkVisibility());
  const first = Math.min(...shown.map((each) => each.getBoundingClientRect().top + scrollY));
  const found = [];
  if (first > latest) found.push(`the first picture or table begins at ${Math.round(first)} px`);
  const heights = [...document.querySelectorAll('.bd-article figure .headbook-figure')]
    .map((each) => Math.round(each.getBoundingClientRect().height));
  for (const height of heights) {
    if (height > highest) found.push(`a captioned figure is ${height} px high`);
  }
  return found;
}"""
"""Of a page that measures itself: a reader sees the phenomenon without scrolling far."""
STREAMS = """() => [...document.querySelectorAll(
    '.bd-article .output.stream, .bd-article .output.stderr, .bd-article .output.traceback')]
  .map((each) => each.textContent.trim().slice(0, 60))"""
NAMES = """() => [...document.querySelectorAll('.bd-article img')]
  .filter((each) => each.alt && each.src.endsWith(each.alt.split('/').pop()))
  .map((each) => each.alt)"""
"""Docutils gives a picture that nobody has described the name of its file."""
LINKS = "() => [...document.querySelectorAll('a[href]')].map((each) => each.href)"
THEME = """(theme) => {
  document.documentElement.dataset.theme = document.documentElement.dataset.mode = theme;
}"""
CONTRASTS = """(most) => {
  const counts = {};
  for (const each of document.querySelectorAll('body *')) {
    const own = [...each.childNodes].filter((node) => node.nodeType === 3);
    const text = own.map((node) => node.data).join('').trim();
    const link = each.closest('a[href]');
    if (text.length < (link ? 1 : 2) || !each.checkVisibility({visibilityProperty: true})) continue;
    let key = '';
    for (let up = each; up; up = up.parentElement) {
      key += `${up.tagName} ${up.className.baseVal ?? up.className} ${up.getAttribute('style')},`;
    }
    counts[key] = (counts[key] ?? 0) + 1;
    if (counts[key] > most) continue;
    each.dataset.contrast = '';
    if (link) link.dataset.contrast = '';
  }
  const bare = document.querySelectorAll('pre span:not([data-contrast])');
  for (const each of bare) each.replaceWith(...each.childNodes);
  const drawn = 'svg[role=img] > :not(title, desc), tr:nth-child(n + 4)';
  for (const each of document.querySelectorAll(drawn)) each.remove();
}"""
"""Marks texts of every kind, by the elements that they are in, a few of each: some may be covered.

Of one letter Axe reads no contrast with its ground. Other words of code lose their colours, and
drawings and further rows go: Axe takes every element for a tenth of a second per thousand.
"""
ALIKE = 2
SAMPLED = {"color-contrast": "[data-contrast]", "link-in-text-block": "a[href][data-contrast]"}
"""Axe's rules of colours, and the elements that they get: of all, they take most of the time."""
AXE = """async ([sampled, options]) => {
  const colours = Object.keys(sampled);
  axe.configure({rules: colours.map((id) => ({id, selector: sampled[id]}))});
  const rules = Object.fromEntries(colours.map((id) => [id, {enabled: false}]));
  const found = [await axe.run(document, {...options, rules})];
  for (const each of document.querySelectorAll('body *')) {
    const marked = each.closest('[data-contrast]') ?? each.querySelector('[data-contrast]');
    if (!marked) each.remove();
  }
  found.push(await axe.run(document, {...options, runOnly: colours}));
  return found.flatMap(({violations}) => violations);
}"""


def executable() -> str | None:
    """Where Chromium is on this machine; None without."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


@contextmanager
def chromium(**options: object) -> Iterator[object]:
    """A running browser, whose pages share a cache and Playwright's options of a context.

    Its sandbox needs rights that a container does not have.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser.new_context(device_scale_factor=SCALE, **options)
        browser.close()


def look(browser: object, file: Path, root: Path, notebook: bool = False) -> dict[str, list[str]]:
    """What is wrong with a page, by kind: wide, narrow, in the dark, and as Axe sees it.

    Of a `notebook`, also its figures' size and place, and its sheets on paper where it is high.
    """
    seen, asked, errors = {}, [], []
    page = browser.pages[0] if browser.pages else browser.new_page()  # a new one takes a process
    page.goto("about:blank")  # the page before it need not be laid out again
    page.set_viewport_size({"width": DESK, "height": HEIGHT})
    listening = {
        "request": lambda request: asked.append(request.url),
        "requestfailed": lambda request: errors.append(f"{request.url} was not loaded"),
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda said: errors.append(said.text) if said.type == "error" else None,
    }
    for event, heard in listening.items():
        page.on(event, heard)
    try:
        page.goto(file.as_uri(), wait_until="load")
        if notebook:  # before folds and tabs are opened, as a reader prints it
            seen["on paper"] = too_long(page)
            seen["figures"] = page.evaluate(FIGURES, [HIGHEST, LATEST])
        page.evaluate(OPENED)
        seen["stream output"] = page.evaluate(STREAMS)
        seen["no description"] = page.evaluate(NAMES)
        seen["escape codes"] = ESCAPES.findall(page.inner_text("body"))
        seen["links that lead nowhere"] = dead(page.evaluate(LINKS), root)
        seen[f"too wide at {DESK} px"] = page.evaluate(WIDE)
        page.set_viewport_size({"width": PHONE, "height": HEIGHT})
        seen[f"too wide at {PHONE} px"] = page.evaluate(WIDE)
        page.evaluate(THEME, "dark")
        seen["flat in dark mode"] = flat(page)
        page.evaluate(THEME, "light")
        page.set_viewport_size({"width": DESK, "height": HEIGHT})
        seen["axe"] = axe(page)
    finally:
        for event, heard in listening.items():
            page.remove_listener(event, heard)
    seen |= {"requests to elsewhere": list(filter(elsewhere, asked)), "script errors": errors}
    return {kind: found for kind, found in seen.items() if found}


def elsewhere(url: str) -> bool:
    return urlsplit(url).scheme not in ("file", "data", "blob", "about")


def dead(links: list[str], root: Path) -> list[str]:
    """Links into the book whose page, or whose place in the page, is not there."""
    found = []
    for link in dict.fromkeys(links):
        parts = urlsplit(link)
        if parts.scheme != "file":
            continue
        file = Path(unquote(parts.path))
        place = unquote(parts.fragment)
        if not file.is_file():
            found.append(f"{link}: no such page")
        elif file.suffix == ".html" and place and place not in places(file):
            found.append(f"{link}: no such place")
        elif not file.is_relative_to(root):
            found.append(f"{link}: outside of the book")
    return found


@cache
def places(file: Path) -> frozenset[str]:
    return frozenset(IDENTIFIER.findall(file.read_text("utf-8"))) | {"top"}


def flat(page: object) -> list[str]:
    """Pictures that show one colour."""
    boxes = np.array(page.evaluate(PICTURES)).reshape(-1, 4)
    if not len(boxes):
        return []
    first, last = boxes[:, :2].min(0).clip(0), (boxes[:, :2] + boxes[:, 2:]).max(0)
    clip = dict(zip(("x", "y", "width", "height"), [*first, *(last - first)], strict=True))
    shot = page.screenshot(full_page=True, type="jpeg", clip=clip)
    grey = np.asarray(Image.open(BytesIO(shot)).convert("L"), dtype=np.float32)
    corners = np.stack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1) - first
    places = (corners * SCALE).round().clip(0).astype(int).tolist()
    parts = [grey[top:bottom, left:right] for (left, top), (right, bottom) in places]
    return [f"the picture at {box} is flat" for box, part in zip(boxes.tolist(), parts, strict=True)
            if part.size and part.std() < FLATTEST]  # fmt: skip


def axe(page: object) -> list[str]:
    """What Axe finds at the levels A and AA, but for KNOWN."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(CONTRASTS, ALIKE)
    page.evaluate(AXE_SCRIPT)
    options = {"runOnly": {"type": "tag", "values": list(RULES)},
               "resultTypes": ["violations"], "preload": False, "iframes": False}  # fmt: skip
    found = page.evaluate(AXE, [SAMPLED, options])
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:120]} ({len(each['nodes'])})"
        for each in found
        if each["id"] not in KNOWN
    ]


def too_long(page: object) -> list[str]:
    """More than SHEETS of A4, which a page has whose column is HIGH."""
    if page.evaluate("document.documentElement.scrollHeight") < HIGH:
        return []
    printed = page.pdf(format="A4", prefer_css_page_size=True)
    count = len(re.findall(rb"/Type\s*/Page\b", printed))
    return [f"{count} sheets"] if count > SHEETS else []
