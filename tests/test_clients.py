"""The report on public clients: its counts, and its reasons."""

import pytest

from tests.clients import (
    CLIENTS,
    TITLE,
    Client,
    ClientRun,
    OutOfReachError,
    describe,
    find_tests,
    read_outcome,
    write_section,
)

REPORT = """<testsuites><testsuite>
<testcase name="test_merge"/>
<testcase name="test_jvm[1]"><failure message="no JVM"/></testcase>
<testcase name="test_teardown"><error message="late"/><skipped/></testcase>
<testcase name="test_cloud" classname="tests.test_io.TestCloud"><skipped message="none"/></testcase>
</testsuite></testsuites>"""
CLIENT = Client(
    "mack",
    ("mack==0.5.0",),
    ("tests",),
    repository="https://example.org/mack",
    failures={"test_jvm": "reads Scala objects"},
)


def test_each_test_counts_once_and_each_failure_has_a_reason():
    run = read_outcome(CLIENT, REPORT)
    assert run == ClientRun(
        CLIENT, ("test_merge",), ("test_jvm[1]", "test_teardown"), ("TestCloud.test_cloud",)
    )
    assert not run.is_explained
    text = describe([run, ClientRun(CLIENTS[0], hindrance="no index")])
    assert "| mack==0.5.0 | 1 | 3 | 1 | tests | https://example.org/mack |" in text
    assert "| mack | `test_jvm[1]` | reads Scala objects |" in text
    assert "| mack | `test_teardown` | **not known** |" in text
    assert f"- {CLIENTS[0].name}: no index.\n" in text


def test_a_client_without_published_tests_names_the_checkout_that_it_needs(monkeypatch, tmp_path):
    monkeypatch.setenv("CLIENT_CHECKOUTS", str(tmp_path))
    with pytest.raises(OutOfReachError, match=r"checkout of https://example\.org/mack"):
        find_tests(CLIENT, tmp_path)
    (tmp_path / "mack").mkdir()
    assert find_tests(CLIENT, tmp_path) == tmp_path / "mack"


def test_a_section_replaces_the_one_of_its_title_and_keeps_the_others(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n## More readers\n\ntext\n")
    write_section(f"{TITLE}\n\nfirst\n", page)
    assert page.read_text() == f"# Page\n\n## More readers\n\ntext\n\n{TITLE}\n\nfirst\n"
    write_section("## More readers\n\nother text\n", page)
    write_section(f"{TITLE}\n\nsecond\n", page)
    assert page.read_text() == f"# Page\n\n## More readers\n\nother text\n\n{TITLE}\n\nsecond\n"
