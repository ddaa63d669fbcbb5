"""Screenshots of every page in both themes at three widths.

`python -m tests.e2e.screenshots` starts a server over a lake of its own and writes the pictures to
`screenshots/`; `--url` selects a running server instead. Files are named page-theme-width.png.
"""

import argparse
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.e2e.lake import lake_of_its_own

WIDTHS = {390: 844, 1440: 900, 2560: 1200}
THEMES = ("light", "dark")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def paths_of(context: BrowserContext, base: str) -> dict[str, str]:
    """Return the path of every page, with the first table, version, job and conflict of the lists."""
    page = context.new_page()
    addresses = {
        "overview": "/",
        "overview-partition": "/?heat=partition&show=attention&sort=-size",
        "attention": "/attention/",
        "tables": "/tables/",
        "tables-filtered-away": "/tables/?q=nothing-is-called-so",
        "register": "/tables/register/",
        "upload": "/tables/upload/",
        "jobs": "/jobs/",
        "conflicts": "/conflicts/",
        "repeated": "/conflicts/repeated/?range=30d",
        "exceptions": "/conflicts/exceptions/",
        "search": "/search/?q=sales",
        "schedules": "/schedules/",
        "run-grid": "/schedules/runs/?range=30d",
        "monitoring": "/monitoring/?ask=workers",
        "alerts": "/monitoring/alerts/",
        "discover": "/tables/discover/",
        "glossary": "/glossary/",
        "explain": "/conflicts/explain/",
        "explain-sample": "/conflicts/explain/?sample=here",
        "audit": "/audit/",
        "tokens": "/tokens/",
        "sessions": "/sessions/",
        "not-found": "/tables/999999/",
    }
    page.goto(f"{base}/tables/?q=sales.orders")
    table = page.locator("table[data-rows] tbody th a").first.get_attribute("href") or "/"
    number = table.strip("/").rpartition("/")[2]
    addresses |= {
        "table": table,
        "history": f"{table}history/",
        "table-conflicts": f"/conflicts/?table={number}",
        "unregister": f"{table}unregister/",
        "schedule-new": f"/schedules/new/?table={number}",
        "job-sql": f"/jobs/new/?table={number}&sql=DELETE+FROM+sales.orders+WHERE+status+%3D+%27open%27",
        "job-form": f"/jobs/new/?table={number}&kind=optimize",
        "job-merge": f"/jobs/new/?table={number}&kind=merge",
    }
    page.goto(f"{base}/tables/?q=order_items")
    items = page.locator("table[data-rows] tbody th a").first.get_attribute("href") or "/"
    addresses |= {
        "eligibility-items": f"{items}eligibility/",
        "eligibility-fixed": f"{items}eligibility/?state=fixed",
    }
    page.goto(f"{base}{table}history/")
    addresses["version"] = (
        page.locator("table[data-rows] a.ver").nth(4).get_attribute("href") or "/"
    )
    addresses["job"] = _first(page, f"{base}/jobs/?state=running&kind=merge&table={number}")
    page.goto(base + addresses["job"])
    earlier = page.locator("table.beside tbody th a").first
    addresses["job-ended"] = earlier.get_attribute("href") or "/"
    addresses["job-aborted"] = _first(page, f"{base}/jobs/?state=conflicted&table={number}")
    addresses["conflict"] = _first(
        page, f"{base}/conflicts/?kind=aborted&pair=UPDATE,DELETE&table={number}"
    )
    addresses["conflict-resolved"] = _first(
        page, f"{base}/conflicts/?kind=resolved&pair=DELETE,OPTIMIZE&table={number}"
    )
    key = "c-" + addresses["conflict"].strip("/").rpartition("/")[2]
    addresses |= {
        name: f"{table}{path}"
        for name, path in {
            "concurrency": f"concurrency/?pick={key}",
            "concurrency-time": "concurrency/?x=time&by=operation",
            "concurrency-3000": "concurrency/?span=3000",
            "isolation": "isolation/?level=Serializable&cell=UPDATE|DELETE",
            "eligibility": "eligibility/",
            "schema": "schema/",
            "what-if": "what-if/?level=Serializable&row_level=false",
            "files": "files/",
            "preview": "preview/",
            "diff": "diff/4800...4806/",
            "row-diff": "diff/4800...4806/rows/",
        }.items()
    }
    page.close()
    return addresses


def _first(page: Page, address: str) -> str:
    page.goto(address)
    link = page.locator("table[data-rows] tbody th a").first
    return (link.get_attribute("href") if link.count() else None) or "/"


def shoot(browser: Browser, options: argparse.Namespace) -> int:
    base, out = options.url.rstrip("/"), Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    context = browser.new_context()
    login = context.new_page()
    login.goto(f"{base}/login/")
    login.screenshot(path=out / "login.png")
    login.fill("#id_username", options.user)
    login.fill("#id_password", options.password)
    login.press("#id_password", "Enter")
    login.wait_for_url(f"{base}/")
    taken = 0
    paths = paths_of(context, base)
    host = urlsplit(base).hostname or "localhost"
    for theme in THEMES if not options.light else THEMES[:1]:
        context.add_cookies([{"name": "theme", "value": theme, "domain": host, "path": "/"}])
        for width, height in WIDTHS.items():
            if options.width and width != options.width:
                continue
            page = context.new_page()
            page.set_viewport_size({"width": width, "height": height})
            for name, path in paths.items():
                if options.only and name not in options.only.split(","):
                    continue
                page.goto(base + path, wait_until="load")
                page.screenshot(path=out / f"{name}-{theme}-{width}.png", full_page=True)
                if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
                    sys.stderr.write(f"scrolls sideways: {name} at {width}\n")
                taken += 1
            page.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="")
    parser.add_argument("--out", default="screenshots")
    parser.add_argument("--user", default="ops-oncall")
    parser.add_argument("--password", default="correct horse battery")
    parser.add_argument("--only", default="", help="names of pages, with commas between")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--width", type=int, default=0)
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("Chromium is missing: apt-get install chromium, or name one with CHROMIUM.")
    with ExitStack() as stack:
        options.url = options.url or stack.enter_context(lake_of_its_own())
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        taken = shoot(browser, options)
        browser.close()
    sys.stdout.write(f"{taken} pictures in {options.out}/\n")


if __name__ == "__main__":
    main()
