"""Tables and sources lie under the roots an administrator set, by their real path."""

import pytest

from engine.errors import EngineError, PathOutsideRootError
from lakeui.catalog.roots import check_source_uri, check_table_uri, storage_options


@pytest.fixture
def root(tmp_path, settings):
    inside = tmp_path / "lake"
    (inside / "sales").mkdir(parents=True)
    settings.TABLE_ROOTS = [str(inside), "s3://company/lake"]
    settings.SOURCE_ROOTS = [str(tmp_path / "uploads")]
    return inside


def test_a_place_under_a_root_is_allowed(root):
    assert check_table_uri(f"{root}/sales/orders") == f"{root}/sales/orders"
    assert check_table_uri(f"file://{root}/sales") == f"{root}/sales"
    assert check_table_uri("s3a://company/lake/orders") == "s3://company/lake/orders"


@pytest.mark.parametrize(
    "place",
    [
        "{root}/../secret",
        "{root}-beside",
        "/etc",
        "file:///etc/passwd",
        "{root}/sales/../../..",
        "s3://company/lakeside",
        "s3://company/lake/../private",
        "s3://other/lake",
        "file://{root}/%2e%2e/secret",
        "ftp://company/lake",
        "http://169.254.169.254/latest",
        "{root}/a\0b",
        "~nobody-at-all/x",
    ],
)
def test_a_place_outside_every_root_is_refused(root, place):
    with pytest.raises(EngineError):
        check_table_uri(place.format(root=root))


def test_a_symbolic_link_does_not_lead_out(root, tmp_path):
    (tmp_path / "secret").mkdir()
    (root / "door").symlink_to(tmp_path / "secret")
    with pytest.raises(PathOutsideRootError, match="TABLE_ROOTS"):
        check_table_uri(f"{root}/door/table")


def test_table_roots_are_no_source_roots(root):
    with pytest.raises(PathOutsideRootError, match="SOURCE_ROOTS"):
        check_source_uri(f"{root}/sales/rows.csv")


def test_the_longest_prefix_gives_the_storage_options(settings):
    settings.TABLE_STORAGE_OPTIONS = {"s3://a": {"region": "x"}, "s3://a/b": {"region": "y"}}
    assert storage_options("s3://a/b/c") == {"region": "y"}
    assert storage_options("s3://a/c") == {"region": "x"}
    assert storage_options("s3://z") == {}
