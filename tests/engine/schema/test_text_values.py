"""Texts that Python reads as numbers or blanks, and Spark does not."""

from decimal import Decimal

import pytest

from engine.commands.text_sample import Misfit, text_value
from engine.errors import MalformedLogError
from engine.expressions.literals import interval_text
from engine.log.paths import parse_name
from engine.schema.partition_values import parse_stored_value
from engine.schema.text_values import parse_decimal, trim_number, trim_text
from engine.schema.types import BOOLEAN, DATE, DOUBLE, LONG, TIMESTAMP, DecimalType

_NO_BREAK, _IDEOGRAPHIC = "\u00a0", "\u3000"


def test_only_control_characters_and_spaces_are_trimmed():
    trimmed = {code for code in range(0x10000) if trim_text(f"{chr(code)}x") == "x"}
    assert trimmed == {*range(0x21), 0x7F}
    assert {code for code in range(0x10000) if trim_number(f"x{chr(code)}") == "x"} == {
        *range(0x21)
    }


def test_a_partition_value_of_other_digits_or_blanks_is_refused():
    for kind, text in (
        (LONG, "1_000"),
        (LONG, f"{_NO_BREAK}1"),
        (LONG, "٣"),
        (DOUBLE, "1_0.5"),
        (DOUBLE, f"nan{_NO_BREAK}"),
        (DOUBLE, "٣"),
        (DecimalType(10, 2), "1_0"),
        (DecimalType(10, 2), "NaN"),
        (DATE, f"{_NO_BREAK}2020-01-01"),
        (DATE, "٢٠٢٠-01-01"),
        (TIMESTAMP, f"2020-01-01 10:00:00{_IDEOGRAPHIC}"),
        (BOOLEAN, "tru\u0435"),
    ):
        with pytest.raises(MalformedLogError):
            parse_stored_value(text, kind)


def test_a_partition_value_is_trimmed_as_a_cast_trims_it():
    assert parse_stored_value("\t7 ", LONG) == 7
    assert parse_stored_value(" 1.5\r", DOUBLE) == 1.5
    assert parse_stored_value("\x7f2020-01-02", DATE) == 18263


def test_a_sample_shows_only_decimals_that_a_load_accepts():
    assert parse_decimal(" 1.50\n") == Decimal("1.50")
    for text in ("1_000", f"{_NO_BREAK}1", "NaN", "Infinity", "\U0001d7cf", "1\x7f"):
        with pytest.raises(Misfit):
            text_value(text, DecimalType(10, 2))


def test_the_words_of_an_interval_are_parted_by_spaces_alone():
    assert interval_text("1 day  2 hours") is not None
    assert interval_text(f"1{_NO_BREAK}day") is None


def test_a_file_name_of_other_digits_is_no_commit():
    assert parse_name("\u0660" * 20 + ".json") is None
