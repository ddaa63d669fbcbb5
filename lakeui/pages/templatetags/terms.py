"""Links to the glossary, and its meanings as markup."""

import re

from django import template
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

from lakeui.catalog.glossary import ANCHORS

register = template.Library()
_CODE = re.compile(r"`([^`]+)`")


@register.simple_tag
def term(words: str, anchor: str = "") -> SafeString:
    """Render words as a link to their glossary term; `anchor` if the page inflects them.

    Raises:
        TemplateSyntaxError: the glossary has no such term.
    """
    place = anchor or slugify(words)
    if place not in ANCHORS:
        msg = f"The glossary has no term {place!r}."
        raise template.TemplateSyntaxError(msg)
    return format_html('<a class="term" href="{}#{}">{}</a>', reverse("glossary"), place, words)


@register.filter
def code_spans(text: str) -> SafeString:
    """Render text in backticks as code."""
    return mark_safe(_CODE.sub(r"<code>\1</code>", escape(text)))  # noqa: S308 - escaped
