import os
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import (
    EngineError,
    MalformedLogError,
    PathOutsideRootError,
    RequestError,
    UnsupportedSchemeError,
)
from engine.storage.local import LocalStore
from engine.storage.uri import (
    are_plain_paths,
    is_plain_path,
    is_same_place,
    local_path,
    normalize_uri,
    open_store,
    resolve_log_path,
)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/data/t/", "/data/t"),
        ("/data/x/../t", "/data/t"),
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data/t", "/data/t"),
        ("file://localhost/data/t", "/data/t"),
        ("s3a://bucket/t/", "s3://bucket/t"),
        ("S3://bucket", "s3://bucket"),
        ("gcs://bucket/t", "gs://bucket/t"),
        ("abfss://c@a.dfs.core.windows.net/t", "az://c@a.dfs.core.windows.net/t"),
        ("memory://name/t", "memory://name/t"),
    ],
)
def test_a_place_has_one_spelling(uri: str, expected: str):
    assert normalize_uri(uri) == expected
    assert normalize_uri(expected) == expected


def test_a_relative_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert local_path("t") == tmp_path / "t"
    assert local_path("s3://bucket/t") is None


@pytest.mark.parametrize("uri", ["ftp://host/t", "http://host/t", "hdfs://host/t"])
def test_other_schemes_are_refused(uri: str):
    with pytest.raises(UnsupportedSchemeError):
        open_store(uri)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("a=b%20c/x", "a=b c/x"),
        ("_2=bar+%252521/x", "_2=bar+%2521/x"),
        ("a/./b//c", "a/b/c"),
        ("a/../b", "b"),
        ("/data/t/x", "x"),
        ("file:///data/t/a%20b", "a b"),
        ("file:/data/t/x", "x"),
        ("12:00/x", "12:00/x"),
        ("ts=2024-01-01 12%3A00/x", "ts=2024-01-01 12:00/x"),
    ],
)
def test_a_path_of_the_log_is_decoded_once(path: str, expected: str):
    assert resolve_log_path("/data/t", path).path == expected


HOSTILE = [
    "../x",
    "..",
    ".",
    "a/../../x",
    "%2e%2e/x",
    "%2E%2E%2Fx",
    "a/%2e%2e/%2e%2e/x",
    "..%2fx",
    "/etc/passwd",
    "/data/t2/x",
    "/data/tx",
    "/data/t/../t2/x",
    "//data/t/../../etc/passwd",
    "file:///etc/passwd",
    "file://other/data/t/x",
    "file:/data/t/../x",
    "file:///data/t/%2e%2e/x",
    "s3://bucket/data/t/x",
    "s3a://data/t/x",
    "http://169.254.169.254/latest",
    "memory://x/y",
    "",
    "a\0b",
    "a%00b",
    "%ff%fe",
    "/",
    "/data/t",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leaves_the_table_is_refused(path: str):
    with pytest.raises((PathOutsideRootError, MalformedLogError)):
        resolve_log_path("/data/t", path)


@pytest.mark.parametrize(
    "path", ["file:///etc/passwd", "../x", "s3://other/t/x", "/x", "s3://bucket/t2/x"]
)
def test_a_path_that_leaves_a_bucket_is_refused(path: str):
    with pytest.raises(PathOutsideRootError):
        resolve_log_path("s3://bucket/t", path)


def test_the_same_bucket_under_another_name_is_the_table():
    assert resolve_log_path("s3://bucket/t", "s3a://bucket/t/x").path == "x"
    assert resolve_log_path("s3://bucket/t", "/t/x").path == "x"


def test_an_allowed_root_may_be_read():
    resolved = resolve_log_path("/data/clone", "file:///data/source/a%20b", ["/data/source"])
    assert (resolved.root, resolved.path, resolved.inside) == ("/data/source", "a b", False)
    with pytest.raises(PathOutsideRootError):
        resolve_log_path("/data/clone", "file:///data/source2/a", ["/data/source"])


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_every_name_survives_encoding(name: str):
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    if parts:
        assert resolve_log_path("/data/t", quote("/".join(parts))).path == "/".join(parts)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["..", ".", "/", "%2e", "%2f", "a", "%25", "file:", "\\"])).map(
        "".join
    )
)
def test_no_text_leads_out_of_the_table(text: str):
    try:
        resolved = resolve_log_path("/data/t", text)
    except EngineError:
        return
    assert resolved.inside
    assert ".." not in resolved.path.split("/")
    assert not resolved.path.startswith("/")


@pytest.mark.parametrize("uri", ["", "  ", "a\0b", "s3://", "memory://", "~nobody-of-that-name/t"])
def test_text_that_names_no_place_is_refused(uri: str):
    with pytest.raises(RequestError):
        open_store(uri)


@given(st.text("ab.%/:\0\\é 2", max_size=12))
def test_a_plain_path_is_the_same_in_any_spelling(path: str):
    def decode(text: str) -> str | type[Exception]:
        try:
            return resolve_log_path("/t", text).path
        except EngineError as error:
            return type(error)

    if not path.startswith("/") and ":/" not in path and path:
        assert decode(path) == decode(f"./{path}")


def test_a_local_uri_opens_a_directory(tmp_path: Path):
    assert isinstance(open_store(f"file://{tmp_path}"), LocalStore)


def test_a_place_is_the_same_under_the_name_of_a_link(tmp_path: Path):
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert is_same_place(f"{tmp_path}/link", f"file://{tmp_path}/t")
    assert not is_same_place(f"{tmp_path}/link", f"{tmp_path}/other")
    assert is_same_place("s3a://b/t/", "s3://b/t")
    assert not is_same_place("s3://b/t", "s3://c/t")


def test_a_directory_that_a_disk_has_under_two_names_is_one_place(tmp_path, monkeypatch):
    """A directory may be mounted twice, or its disk may ignore case."""
    stat = os.stat
    (tmp_path / "t").mkdir()
    (tmp_path / "other").mkdir()

    def stat_folded(path, **how):
        return stat(
            str(path).removesuffix("/T") + "/t" if str(path).endswith("/T") else path, **how
        )

    monkeypatch.setattr(os, "stat", stat_folded)
    assert is_same_place(f"{tmp_path}/t", f"{tmp_path}/T")
    assert not is_same_place(f"{tmp_path}/other", f"{tmp_path}/T")
    assert not is_same_place(f"{tmp_path}/T", f"{tmp_path}/none")


def test_a_container_is_one_place_under_every_name_of_its_account():
    named = "abfss://c@a.dfs.core.windows.net/t"
    assert is_same_place(named, "az://c@a.blob.core.windows.net/t/")
    assert not is_same_place(named, "abfss://c@b.dfs.core.windows.net/t")
    assert not is_same_place(named, "az://c/other")
    assert not is_same_place(named, "s3://c/t")
    with pytest.raises(RequestError, match="may be the same table"):  # a read of itself, unnoticed
        is_same_place(named, "az://c/t")


_characters = st.characters(blacklist_categories=("Cs",))


@given(
    st.lists(st.text(st.sampled_from("a./%:\0\n ä"), max_size=6) | st.text(_characters, max_size=6))
)
@example(
    ["a/b", "a\n", "a/./b", "", "/a", "a//b", "a\0", "p=1/x.parquet", "s3:/a", "a/..", "a%20b"]
)
def test_many_paths_are_plain_as_each_of_them_is(paths):
    column = pa.chunked_array([pa.array(paths, pa.string())])
    assert are_plain_paths(column).to_pylist() == [is_plain_path(text) for text in paths]
