"""`manage.py explain FILE|-`: explains a conflict error. Exit status 3 if there is one."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from engine.errors import RequestError
from lakeui.catalog.models import Table
from lakeui.conflicts.reports.links import LinkedReport, explain_report
from lakeui.conflicts.reports.messages import MAX_REPORT_CHARS, parse_report
from lakeui.conflicts.reports.verdict import verdict_of

CONFLICT_FOUND = 3


class Command(BaseCommand):
    help = (
        "Explain a conflict error of delta-spark, Databricks or delta-rs, or a log that "
        "contains one."
    )
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="a file that contains the error, or - for standard input")
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")

    def handle(self, *args: object, **options: object) -> None:
        del args
        linked = _explain_text(_read(str(options["file"])))
        facts = _facts(linked)
        if options["output"] == "json":
            self.stdout.write(json.dumps(facts, indent=2))
        else:
            for line in _lines(facts):
                self.stdout.write(line)
        if linked.report.conflict is not None:
            sys.exit(CONFLICT_FOUND)


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read(MAX_REPORT_CHARS + 1)
        with Path(name).open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_REPORT_CHARS + 1)
    except OSError as error:
        msg = f"{name} cannot be read: {error.strerror}."
        raise CommandError(msg) from error


def _explain_text(text: str) -> LinkedReport:
    """Explain with the mirrored winning commit, or without it if there is no database."""
    try:
        return explain_report(text, Table.objects.all())
    except DatabaseError:
        return LinkedReport(parse_report(text))
    except RequestError as error:
        raise CommandError(str(error)) from error


def _facts(linked: LinkedReport) -> dict[str, Any]:
    report = linked.report
    return {
        "conflict": report.conflict.as_dict() if report.conflict else None,
        "more": report.more,
        "recognized": list(report.recognized),
        "table": linked.table.name if linked.table else None,
        "winning_version": linked.winning_version,
        "found_by": linked.how,
        "format": report.format,
        "verdict": asdict(verdict) if (verdict := verdict_of(linked)) else None,
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    reported = facts["conflict"]
    if reported is None:
        recognized = "; ".join(facts["recognized"]) or "nothing"
        return [f"No write conflict was found in the text. It contains {recognized}."]
    shown = {
        "conflict": reported["exception"] or reported["code"],
        "code": ".".join(part for part in (reported["code"], reported["subclass"]) if part),
        "written by": facts["format"],
        "table": facts["table"] or reported["table"],
        "winning": _winner(facts, reported),
        "partitions": ", ".join(reported["partitions"]),
        "file": reported["file"],
    }
    lines = [f"{name:11} {value}" for name, value in shown.items() if value]
    verdict = facts["verdict"]
    rule = (
        f"check {verdict['check']} of {verdict['check_count']}, {verdict['rule']}. {verdict['why']}"
    )
    lines += [
        *([f"{'rule':11} {rule}"] if verdict["check"] else []),
        f"{'decided by':11} {verdict['decided_by']}: {verdict['decided_why']}",
        f"{'retry':11} {verdict['retry']}",
    ]
    remedies = [
        f"  {n}. {r['action']}: {r['reason']}" for n, r in enumerate(reported["remedies"], 1)
    ]
    return [
        verdict["headline"],
        "",
        *lines,
        "",
        reported["meaning"],
        "",
        "How to avoid it:",
        *remedies,
    ]


def _winner(facts: dict[str, Any], reported: dict[str, Any]) -> str:
    version = facts["winning_version"]
    parts = [
        f"version {version}" if version is not None else "",
        reported["winner_operation"] or "",
        f"(found by {facts['found_by']})" if facts["found_by"] else "",
    ]
    return " ".join(part for part in parts if part)
