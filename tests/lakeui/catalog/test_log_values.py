"""Texts of a valid commit, stored as a whole: equal to those cleaned one by one."""

import json

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from lakeui.catalog.log_values import is_clean, json_value, text

TEXTS = st.text(st.characters(), max_size=6)
VALUES = (
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats() | st.lists(TEXTS, max_size=2)
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4), st.booleans())
@example({"a": "\0"}, True)
@example({"a": "\ud800"}, True)
@example({"a": 2**70}, True)
@example({"a": float("inf")}, True)
@example({"a": "plain", "b": "a\\u"}, True)
def test_a_clean_document_has_no_text_that_does_not_fit(values, escapes):
    document = json.dumps(values, ensure_ascii=escapes).encode("utf-8", "surrogatepass")
    if is_clean(document):
        assert all(text(name) == name for name in values)
        assert json_value(values, is_clean=True) == json_value(values)
    else:
        assert b"\\u" in document or not document.isascii() or b"\0" in document


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_both_encoders_write_the_same_json(values):
    clean = json_value(values)
    assert json.loads(msgspec.json.encode(clean)) == json.loads(json.dumps(clean))
