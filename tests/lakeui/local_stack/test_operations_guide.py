"""docs/operations.md and the deployment file name exactly the existing settings."""

import re

import pytest
import yaml

from lakeui.local_stack.settings_guide import SETTINGS, codes, defaults_in, fill_guide
from lakeui.local_stack.stack import programs
from tests.services import ROOT

GUIDE = (ROOT / "docs/operations.md").read_text("utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
OF_THE_STACK = {"LAKEUI_EMBEDDED"}  # set by `manage.py up` for its children
OF_COMPOSE = {"POSTGRES_PASSWORD", "LAKE_DIR"}


def names_read() -> set[str]:
    settings = (ROOT / "lakeui/settings.py").read_text("utf-8")
    session = (ROOT / "engine/spark/session.py").read_text("utf-8")
    read = re.findall(r'env\.\w+\((?:\s|#.*)*"([A-Z_]+)"', settings)
    of_session = re.findall(r'environ\.get\("([A-Z_]+)"|"(SPARK_[A-Z_]+)"', session)
    return {*read, *(name or other for name, other in of_session)} - OF_THE_STACK


def test_every_setting_is_in_the_guide():
    assert len(names_read()) > 40
    assert [name for name in sorted(names_read()) if f"`{name}`" not in GUIDE] == []


def test_every_setting_in_the_guide_is_read():
    rows = GUIDE.split("## Settings\n")[1].split("\n### ")[0].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    names = {name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)}
    of_pyspark = {"PYSPARK_PYTHON", "JAVA_HOME"}
    assert names - names_read() - of_pyspark == set()


def test_defaults_and_codes_in_the_guide_are_those_of_the_code():
    """`python -m lakeui.local_stack.settings_guide` writes them."""
    assert fill_guide(GUIDE, SETTINGS.read_text("utf-8")) == GUIDE


def test_a_default_that_changes_changes_the_guide():
    settings = SETTINGS.read_text("utf-8")
    other = settings.replace('"JOB_MAX_LOSSES", default=5', '"JOB_MAX_LOSSES", default=7')
    assert "| `JOB_MAX_LOSSES` | 7 |" in fill_guide(GUIDE, other)
    larger = settings.replace(
        '"IN_PROCESS_BYTES", default=64 * 1024 * 1024', '"IN_PROCESS_BYTES", default=2 * 1024**3'
    )
    assert "| `IN_PROCESS_BYTES` | 2 GiB |" in fill_guide(GUIDE, larger)


def test_a_setting_without_a_row_is_named():
    with pytest.raises(KeyError, match="NEW_ONE"):
        fill_guide(GUIDE, 'X = env.int("NEW_ONE", default=1)')


def test_the_settings_that_are_read_are_those_that_the_guide_is_made_from():
    assert {*defaults_in(SETTINGS.read_text("utf-8"))} <= names_read()
    assert len(codes()) > 30


def test_every_code_in_the_guide_is_one():
    told = set(re.findall(r"`(LAKE_[A-Z_]+)`", GUIDE)) - {"LAKE_HOME", "LAKE_DIR"}
    assert told - {*codes()} == {"LAKE_INTERNAL", "LAKE_WORKER_LOST"}  # of no class


def test_every_web_server_hands_on_the_address_of_its_own_peer_and_can_be_stopped():
    """By default, uvicorn trusts X-Forwarded-For from loopback and waits for streams."""
    stack = (" ".join(map(str, one.command)) for one in programs(8000, spark=False, demo=False))
    commands = [
        line
        for text in (GUIDE, COMPOSE, "\n".join(stack))
        for line in text.splitlines()
        if "lakeui.asgi:application" in line
    ]
    assert len(commands) == 3
    assert all("--no-proxy-headers" in command for command in commands)
    assert all("--timeout-graceful-shutdown" in command for command in commands)


def test_the_deployment_file_passes_on_settings_that_exist():
    passed = set(re.findall(r"^    ([A-Z_]+):", COMPOSE, re.MULTILINE))
    asked = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE))
    assert passed - names_read() == set()
    assert asked - names_read() == OF_COMPOSE
    assert all(name in GUIDE for name in OF_COMPOSE)


def test_the_containers_of_the_deployment_file_run_as_an_ordinary_user():
    services = yaml.safe_load(COMPOSE)["services"]
    ours = [service for service in services.values() if service["image"] == "lakeui"]
    assert len(ours) == 6
    for service in ours:
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["build"] == "."
    *_, last = re.findall(r"^USER (.*)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert last == "lake"


def test_workers_are_given_more_than_the_ten_seconds_of_docker_to_end():
    services = yaml.safe_load(COMPOSE)["services"]
    workers = [service for name, service in services.items() if name.endswith("-worker")]
    assert len(workers) == 3
    assert all("stop_grace_period" in service for service in workers)


def test_the_workflows_run_the_same_as_ci_and_release_sdist_wheel_and_image():
    steps = {
        path.stem: " ".join(
            str(step.get("run", ""))
            for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values()
            for step in job["steps"]
        )
        for path in (ROOT / ".github/workflows").glob("*.yml")
    }
    assert ".ci/run" in steps["ci"]
    assert (ROOT / ".ci/run").is_file()
    for does in ("python -m build", "docker build", "gh release create"):
        assert does in steps["release"]
