"""Paging of computed sequences: a page begins at an index."""

from typing import Any

from django.core import signing
from django.views import View
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from lakeui.api.paging import KeysetPaging, page_size, scope_of

_SALT = "lakeui.api.sequence_paging"


class SequencePaging(KeysetPaging):
    """Pages of a sequence, like those of `KeysetPaging`; new items at the front shift the rest."""

    def paginate_queryset(
        self,
        queryset: Any,
        request: Request,
        view: View | None = None,  # noqa: ARG002 - the framework's signature
    ) -> list[Any]:
        size, scope = page_size(request.query_params.get("page_size")), scope_of(request)
        begin = _place(request.query_params.get("page_token"), scope)
        if len(queryset) > begin + size:
            self.next_page_token = signing.dumps([scope, begin + size], salt=_SALT)
        return list(queryset[begin : begin + size])


def _place(token: str | None, scope: str) -> int:
    if not token:
        return 0
    try:
        belongs_to, place = signing.loads(token, salt=_SALT)
    except (signing.BadSignature, ValueError) as error:
        raise ValidationError({"page_token": ["It is not one of this service."]}) from error
    if belongs_to != scope:
        raise ValidationError({"page_token": ["It belongs to another list or other filters."]})
    return int(place)
