from collections.abc import Mapping

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_ONCE = 200
_BRINGS_BACK = ("RESTORE", "CLONE")
_RESTATING = ("ROW TRACKING BACKFILL", "COMPUTE STATS")


def count_live_rows(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor | None) -> None:
    """Of commits whose files came with a vector, where all are mirrored; a rebuild counts the others."""
    commits = apps.get_model("catalog", "Commit").objects
    commits.filter(operation__in=_RESTATING).update(rows_added=0, rows_deleted_by_vectors=0)
    marked = commits.filter(operation__in=_BRINGS_BACK, vectors_added__gt=0)
    referring = marked.only("pk", "files_added", "files_removed")
    for commit in referring.iterator(_ONCE):
        sides: dict[str, dict[str, tuple[int | None, int]]] = {"add": {}, "remove": {}}
        files = commit.files.filter(action__in=sides)
        for action, path, rows, gone in files.values_list(
            "action", "path", "row_count", "deleted_row_count"
        ):
            sides[action][path] = (rows, gone)
        adds, removes = sides["add"], sides["remove"]
        if (len(adds), len(removes)) == (commit.files_added, commit.files_removed):
            came = [file for path, file in adds.items() if path not in removes]
            commits.filter(pk=commit.pk).update(
                rows_added=_live(came), rows_deleted_by_vectors=_marked(adds, removes)
            )


def _live(files: list[tuple[int | None, int]]) -> int | None:
    counts = [None if rows is None or rows < gone else rows - gone for rows, gone in files]
    recorded = [count for count in counts if count is not None]
    return sum(recorded) if len(recorded) == len(counts) else None


def _marked(
    adds: Mapping[str, tuple[int | None, int]], removes: Mapping[str, tuple[int | None, int]]
) -> int:
    return sum(max(0, adds[path][1] - removes[path][1]) for path in adds.keys() & removes.keys())


class Migration(migrations.Migration):
    dependencies = [("catalog", "0020_rows_removed")]

    operations = [migrations.RunPython(count_live_rows, migrations.RunPython.noop)]
