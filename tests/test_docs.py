"""The documentation, checked against its own promises and the code."""

import re
import subprocess
import sys
import tomllib
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest

from engine.transaction.pending_commit import ENGINE_INFO

ROOT = Path(__file__).parents[1]
DECISION = re.compile(r"- (\d{4}-\d\d-\d\d): \*\*")


def _sections(path: str, heading: str) -> dict[str, list[str]]:
    """The lines below each heading of a level, without empty ones."""
    parts = re.split(rf"^{heading} (.*)$", (ROOT / path).read_text("utf-8"), flags=re.M)[1:]
    return {
        title: [line for line in body.splitlines() if line]
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


DECISIONS = _sections("docs/decisions.md", "##")


@pytest.mark.parametrize("part", DECISIONS)
def test_every_decision_has_its_date_and_the_latest_is_last(part):
    dates = []
    for line in DECISIONS[part]:
        dated = DECISION.match(line)
        assert dated, f"no date: {line[:60]}"
        dates.append(date.fromisoformat(dated[1]))
    assert dates
    assert all(earlier <= later for earlier, later in pairwise(dates))


RECIPES = _sections("CONTRIBUTING.md", "###")
NAMED = re.compile(r"`((?:engine|lakeui|tests|docs)/[\w/.{},]*\w)`")


def test_contributing_has_a_recipe_for_each_frequent_addition():
    assert {title.lower().partition(" ")[2] for title in RECIPES} == {
        "conflict rule",
        "statement",
        "function of sql",
        "operation",
        "page",
        "field of rest",
        "condition that needs attention",
        "setting or an error code",
    }


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_has_at_most_ten_lines_and_names_files_that_are_there(title):
    assert len(RECIPES[title]) <= 10
    for name in NAMED.findall("\n".join(RECIPES[title])):
        if "NAME" in name or "SUBJECT" in name:
            continue
        before, _, rest = name.partition("{")
        ways, _, after = rest.partition("}")
        for way in ways.split(","):
            assert (ROOT / f"{before}{way}{after}").exists(), name


FLOORS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
TRACKED = {
    path.name
    for house in ("engine", "lakeui", "workers", "tests", "benchmarks", "templates", "docs")
    for path in (ROOT / house).rglob("*.*")
}
GUIDES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def test_the_map_has_every_floor_of_the_engine_in_the_order_of_imports():
    layers = next(c["layers"] for c in FLOORS["contracts"] if c["name"] == "Engine floors")
    floors = [name for layer in layers for name in layer.split(" | ")]
    told = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|", (ROOT / "docs/architecture.md").read_text("utf-8"), re.M
    )
    assert [name for row in told for name in re.findall(r"\w+", row)] == floors


def test_each_look_up_of_the_map_names_a_text_in_its_file():
    guide = (ROOT / "docs/architecture.md").read_text("utf-8")
    table = guide.partition("## Where to look things up")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if "?" in line]
    assert len(rows) >= 10
    for row in rows:
        places = re.findall(r"`([\w/]+\.(?:py|html))`: `([^`]+)`", row)
        assert 1 <= len(places) <= 2, row
        for path, name in places:
            assert name in (ROOT / path).read_text("utf-8"), row


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_a_guide_names_no_missing_module(guide):
    named = re.findall(r"`(?:[\w/]+/)?(\w+\.(?:py|html))`", guide.read_text("utf-8"))
    assert {name for name in named if "NAME" not in name} <= TRACKED


ENGINE_AND_SERVER = "\n".join(
    path.read_text("utf-8")
    for house in ("engine", "lakeui", "workers")
    for path in (ROOT / house).rglob("*.py")
)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_a_guide_names_no_missing_error_code(guide):
    codes = re.findall(r"`((?:LAKE|DELTA|DIFFERENT_DELTA)_\w+)`", guide.read_text("utf-8"))
    of_compose = {"LAKE_DIR"}
    assert {code for code in codes if f'"{code}"' not in ENGINE_AND_SERVER} <= of_compose


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_a_guide_names_no_missing_command(guide):
    text = guide.read_text("utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    ours = {path.stem for path in (ROOT / "lakeui").glob("*/management/commands/*.py")}
    djangos = {"check", "migrate", "collectstatic", "createsuperuser"}
    assert set(re.findall(r"`(?:[A-Z_]+=\S* )?make ([a-z0-9-]+)", text)) <= targets
    assert set(re.findall(r"manage\.py ([a-z_]+)", text)) <= ours | djangos


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("guide", [*GUIDES, ROOT / "CHANGELOG.md"], ids=lambda guide: guide.name)
def test_the_links_of_a_guide_lead_somewhere(guide):
    links = re.findall(r"\]\(([^)\s]+)\)", guide.read_text("utf-8"))
    for link in (link for link in links if not link.startswith("http")):
        name, _, anchor = link.partition("#")
        page = guide.parent / name if name else guide
        assert page.exists(), link
        assert not anchor or anchor in _anchors(page), link


def test_the_readme_leads_to_every_guide():
    text = (ROOT / "README.md").read_text("utf-8")
    guides = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert {name for name in guides if f"(docs/{name})" not in text} == set()


def test_a_version_has_its_section_and_is_the_one_that_commits_carry():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert version in _sections("CHANGELOG.md", "##")
    assert f"lakeui/{version}" == ENGINE_INFO


HOOKS = re.findall(
    r"entry: \.venv/bin/(ruff .*)", (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
)


@pytest.mark.parametrize("entry", HOOKS)
def test_a_hook_skips_the_same_files_as_make_check(entry):
    """Hooks are given the files of a commit by name, which ruff otherwise checks though excluded."""
    made = "lakeui/monitoring/migrations/0001_initial.py"
    command = [sys.executable, "-m", *entry.split(), "--diff", made]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout


def test_there_are_hooks_of_ruff():
    assert len(HOOKS) == 2
