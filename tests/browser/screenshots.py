"""Pictures of both pages at three widths in both colour schemes, to be looked at: `make screenshots`."""

from __future__ import annotations

import math
import sys
from itertools import product
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page

from tests.browser.stage import PATIENCE_MS, Stage, chromium, find_chromium

FOLDER: Final = Path("build/screenshots")
WIDTHS: Final = (390, 1024, 1920)
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
SHOWN_MS: Final = 6_000
"""So long the charts fill."""

TRAFFIC: Final = [
    {
        "class": ("QUAKE", "STOCK", "ALARM")[at % 3],
        "magnitude": round(5 + 3 * math.sin(at), 1),
        "place": f"<b>station {at}</b>",
        "where": {"lat": round(38 + math.cos(at), 3), "lon": round(142 + math.sin(at), 3)},
        "felt": at % 2 == 0,
    }
    for at in range(60)
]


def _overlay(page: Page, stage: Stage, name: str) -> None:
    page.goto(stage.url)
    page.locator(".link .label").first.wait_for()
    page.wait_for_timeout(SHOWN_MS)
    _take(page, f"overlay-{name}")
    page.locator('[data-id="broker:edge1"]').click()
    page.locator(".details .chart").wait_for()
    _take(page, f"overlay-broker-{name}")


def _lab(page: Page, stage: Stage, name: str) -> None:
    page.goto(f"{stage.url}/#/lab")
    editor = page.get_by_role("textbox", name="Filter")
    editor.fill("class = 'QUAKE' and magnitude => 6")
    page.locator(".mistake").wait_for()
    _take(page, f"lab-mistake-{name}")
    editor.fill("class = 'QUAKE' and (magnitude >= 6 or felt = true)")
    page.locator(".passed").nth(8).wait_for()
    page.locator(".passed-head").first.click()
    _take(page, f"lab-{name}")


def _take(page: Page, name: str) -> None:
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    print(path)


def take_all(browser: Browser, stage: Stage) -> None:
    """Every page, width and scheme."""
    for width, scheme in product(WIDTHS, SCHEMES):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        _overlay(page, stage, f"{width}-{scheme}")
        _lab(page, stage, f"{width}-{scheme}")
        context.close()


if __name__ == "__main__":
    if find_chromium() is None:
        sys.exit("there is no chromium on this machine: tools/test_programs.sh installs it")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Stage() as on_stage, chromium() as one:
        on_stage.do(on_stage.begin_traffic(*TRAFFIC, every_s=0.004))
        take_all(one, on_stage)
