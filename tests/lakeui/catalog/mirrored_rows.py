"""Everything in the mirror, except keys and the times of its own reading."""

from lakeui.catalog.models import Commit, CommitFile, CommitHour, LiveFile, Table

_SKIPPED = {"id", "commit_id", "mirrored_at", "mirror_tried_at", "registered_at"}


def read_mirror_rows(table: Table) -> list[list[object]]:
    """Return the rows of a table, its commits, their files, its live files, and the hours of all commits."""
    return [
        sorted(({key: row[key] for key in row if key not in _SKIPPED} for row in rows), key=repr)
        for rows in (
            Table.objects.filter(pk=table.pk).values(),
            Commit.objects.filter(table=table).values(),
            CommitFile.objects.filter(commit__table=table).values("commit__version", *_FILE),
            LiveFile.objects.filter(table=table).values(),
            CommitHour.objects.exclude(commits=0).values(),
        )
    ]


_FILE = [field.name for field in CommitFile._meta.concrete_fields if field.name != "commit"]
