"""Pictures of every page in both themes at three widths, to be looked at.

`python -m tests.e2e.screenshots URL OUT [--user NAME --password WORD] [--only PART] [--light]`
against a running server; names of files are page-theme-width.png.
"""

import argparse
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, sync_playwright

WIDTHS = {390: 844, 1440: 900, 2560: 1200}
THEMES = ("light", "dark")
CHROMIUM = "/usr/bin/chromium"


def paths_of(context: BrowserContext, base: str) -> dict[str, str]:
    """Every page, with the first table, version, job and conflict that the lists name."""
    page = context.new_page()
    found = {
        "overview": "/",
        "tables": "/tables/",
        "tables-filtered-away": "/tables/?q=nothing-is-called-so",
        "register": "/tables/register/",
        "upload": "/tables/upload/",
        "jobs": "/jobs/",
        "conflicts": "/conflicts/",
        "search": "/search/?q=sales",
        "not-found": "/tables/999999/",
    }
    page.goto(f"{base}/tables/?q=sales.orders")
    table = page.locator("table[data-rows] tbody th a").first.get_attribute("href") or "/"
    number = table.strip("/").rpartition("/")[2]
    found |= {
        "table": table,
        "history": f"{table}history/",
        "table-conflicts": f"/conflicts/?table={number}",
        "job-sql": f"/jobs/new/?table={number}&sql=DELETE+FROM+sales.orders+WHERE+status+%3D+%27open%27",
        "job-form": f"/jobs/new/?table={number}&kind=optimize",
    }
    page.goto(f"{base}{table}history/")
    found["version"] = page.locator("table[data-rows] a.ver").nth(4).get_attribute("href") or "/"
    for name, address in (("job", "/jobs/?state=running"), ("conflict", "/conflicts/?exception=ConcurrentDeleteReadException&table=" + number)):  # fmt: skip
        page.goto(base + address)
        link = page.locator("table[data-rows] tbody th a").first
        found[name] = link.get_attribute("href") or "/" if link.count() else "/"
    for tab in (page.goto(base + table) and page.locator("nav.tabs a").all()) or []:
        address = tab.get_attribute("href") or ""
        if address.startswith(table) and address.rstrip("/") + "/" not in found.values():
            found[address.strip("/").rpartition("/")[2]] = address
    page.close()
    return found


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
                if options.only and options.only not in name:
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
    parser.add_argument("url")
    parser.add_argument("out")
    parser.add_argument("--user", default="ops-oncall")
    parser.add_argument("--password", default="correct horse battery")
    parser.add_argument("--only", default="")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--width", type=int, default=0)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        taken = shoot(browser, parser.parse_args())
        browser.close()
    sys.stdout.write(f"{taken} pictures\n")


if __name__ == "__main__":
    main()
