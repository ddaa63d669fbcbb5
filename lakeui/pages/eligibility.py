"""Whether a table takes part in row-level concurrency, condition by condition."""

import json

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lakeui.conflicts.eligibility import AVOIDED_DAYS, eligibility_of
from lakeui.conflicts.models import Conflict
from lakeui.pages.table_head import table_head, visible_table


@login_required
def eligibility(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    found = eligibility_of(table)
    escaped = table.conflicts.filter(kind=Conflict.Kind.ESCAPED)
    context = {
        "table": table,
        "head": table_head(request, table, "eligibility"),
        "found": found,
        "steps": [
            (step, json.dumps(step.job["parameters"]) if step.job else "")
            for step in found.conditions
        ],
        "holding": sum(step.holds for step in found.conditions),
        "escaped": escaped.count(),
        "by_file": escaped.filter(row_count=None, file_count__gt=0).count(),
        "days": AVOIDED_DAYS,
        "twin": f"/api/v1/tables/{table.pk}/eligibility/",
    }
    return render(request, "tables/eligibility.html", context)
