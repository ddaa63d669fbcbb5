"""Time-travel suffixes of names, found in statements without touching literals and comments."""

# ruff: noqa: S608 - a statement that nobody runs
import pytest

from engine.delta.table_reads import expand_time_travel, split_point

MOMENT = "20260131121530123"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/lake/t@v12", ("/lake/t", "12", None)),
        ("orders@V0", ("orders", "0", None)),
        (f"/lake/t@{MOMENT}", ("/lake/t", None, "2026-01-31 12:15:30.123")),
        ("/lake/a@v1/t@v2", ("/lake/a@v1/t", "2", None)),
        ("/lake/t@20261331121530123", ("/lake/t@20261331121530123", None, None)),
        ("/lake/t@v", ("/lake/t@v", None, None)),
        ("/lake/t@v1x", ("/lake/t@v1x", None, None)),
        ("/lake/t@v\u0661", ("/lake/t@v\u0661", None, None)),
        ("@v1", ("@v1", None, None)),
    ],
)
def test_a_name_is_split_from_its_version_or_time(text, parts):
    assert split_point(text) == parts


def test_names_of_a_statement_get_the_words_that_spark_knows():
    text = f"SELECT 'a@v1' FROM `x y`@v3 t, b.c@{MOMENT} -- d@v4\n WHERE e @v5 = 1 AND `f@v6` > 0"
    assert expand_time_travel(text) == (
        "SELECT 'a@v1' FROM `x y` VERSION AS OF 3 t, b.c TIMESTAMP AS OF '2026-01-31 12:15:30.123'"
        " -- d@v4\n WHERE e @v5 = 1 AND `f@v6` > 0"
    )


def test_a_text_with_an_open_quote_is_left_unchanged():
    assert expand_time_travel("SELECT 'open FROM t@v1") == "SELECT 'open FROM t@v1"
