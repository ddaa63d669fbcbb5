"""Conditions on pages: as people write them, and truncated between words."""

import pytest

from lakeui.conflicts.statements.text import plain_condition
from lakeui.pages.templatetags.lake import short_condition, short_text


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("(`id` = 5)", "(id = 5)"),
        ("((id#12L = 5) AND (day#3 = '2026'))", "((id = 5) AND (day = '2026'))"),
        ("`order` = 1 AND `a b` = 2", "`order` = 1 AND `a b` = 2"),
        ("name = '`id`#12' AND `t`.`id` = 1", "name = '`id`#12' AND t.id = 1"),
        ("note = 'it''s `x`' OR `x` = ''", "note = 'it''s `x`' OR x = ''"),
        ("note = 'open", "note = 'open"),
    ],
)
def test_untyped_backticks_and_numbers_are_left_out(recorded, shown):
    assert plain_condition(recorded) == shown


def test_a_condition_is_cut_between_words_and_never_inside_a_text():
    text = "status = 'a long text with words' AND id = 1234567"
    assert short_condition(text, 200) == text
    assert short_condition(text, 20) == "status = …"
    assert short_condition(text, 40) == "status = 'a long text with words' AND …"
    assert short_condition(text, 45) == "status = 'a long text with words' AND id = …"
    one = "'" + "x" * 300 + "'"
    assert short_condition(one, 20) == one


def test_a_sentence_is_cut_alike_and_loses_nothing_else():
    text = "Version 3 changed rows where `id` = 'a b c' and more than that"
    assert short_text(text, 40) == "Version 3 changed rows where `id` = …"
    assert short_text(text, 45) == "Version 3 changed rows where `id` = 'a b c' …"
    assert short_text("run#12 of `t`", 40) == "run#12 of `t`"
    assert len(short_text("'" + "x" * 100_000 + "'", 20)) < 1100
