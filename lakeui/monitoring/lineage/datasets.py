"""Tables and files as OpenLineage's datasets, named by location as its specification requires.

https://openlineage.io/docs/spec/naming: a table has the same name in every tool, so that events of
Spark or Airflow about the same location are about the same dataset. Its name here is a symlink of
it.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from openlineage.client.event_v2 import Dataset, InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    dataset_version_dataset,
    datasource_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
)

from engine.errors import EngineError
from engine.storage.uri import normalise_uri
from lakeui.catalog.definitions import read_definition_actions
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.roots import storage_options
from lakeui.catalog.schema_rows import type_text

MAX_COLUMNS, MAX_DEPTH = 1_000, 8
_Dataset = TypeVar("_Dataset", bound=Dataset)


def input_table(table: Table, version: int | None) -> InputDataset:
    """Return a table that was read, at a version if known."""
    return InputDataset(*name_of(table.uri), facets=_facets(table, version))


def output_table(table: Table, version: int | None) -> OutputDataset:
    """Return a written table, with the contents of its committed version, if any."""
    output = OutputDataset(*name_of(table.uri), facets=_facets(table, version))
    commit = None if version is None else table.commits.filter(version=version).first()
    if commit is not None:
        output.outputFacets = {"outputStatistics": _statistics(commit)}
    return output


def input_files(uri: str) -> InputDataset:
    """Return files that were read, as the command names them."""
    return InputDataset(*name_of(uri))


def distinct(datasets: Sequence[_Dataset]) -> list[_Dataset]:
    """Return the first dataset of each name."""
    return list(
        {(dataset.namespace, dataset.name): dataset for dataset in reversed(datasets)}.values()
    )[::-1]


def name_of(uri: str) -> tuple[str, str]:
    """Return namespace and name of a location, without parts that only serve access."""
    try:
        place = normalise_uri(uri)
    except EngineError:
        place = uri
    if "://" not in place:
        return "file", place
    parts = urlsplit(place)
    namespace = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if parts.scheme == "az":
        namespace = _azure(parts.netloc, storage_options(place).get("account_name", ""))
    return namespace, parts.path.strip("/") or "/"


def _azure(container: str, account: str) -> str:
    """Return a container of a storage account, if its URI or the settings name the account."""
    if "@" in container:
        return f"abfss://{container}"
    return f"abfss://{container}@{account}.dfs.core.windows.net" if account else f"az://{container}"


def _facets(table: Table, version: int | None) -> dict[str, DatasetFacet]:
    namespace, _ = name_of(table.uri)
    identifier = symlinks_dataset.Identifier(settings.LINEAGE_NAMESPACE, table.name, "TABLE")
    facets: dict[str, DatasetFacet] = {
        "dataSource": datasource_dataset.DatasourceDatasetFacet(
            name=namespace, uri=namespace if ":" in namespace else f"{namespace}:///"
        ),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet([identifier]),
    }
    if columns := _columns(_schema_of(table, version)):
        facets["schema"] = schema_dataset.SchemaDatasetFacet(columns)
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
    return facets


def _schema_of(table: Table, version: int | None) -> Any:  # noqa: ANN401 - JSON
    """Return the schema of the version if it is mirrored; else the table's current one."""
    changes = table.commits.filter(changes_metadata=True)
    if version is None or not changes.filter(version__gt=version).exists():
        return table.schema
    commit = changes.filter(version__lte=version).order_by("-version").first()
    metadata, _ = read_definition_actions(commit) if commit else (None, None)
    return json.loads(metadata.schema_string) if metadata else table.schema


def _columns(schema: Any, depth: int = 0) -> list[schema_dataset.SchemaDatasetFacetFields]:  # noqa: ANN401 - JSON
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or depth > MAX_DEPTH:
        return []
    return [
        schema_dataset.SchemaDatasetFacetFields(
            name=str(field.get("name")),
            type=type_text(field.get("type")),
            description=(field.get("metadata") or {}).get("comment"),
            ordinal_position=place,
            fields=_columns(field.get("type"), depth + 1),
        )
        for place, field in enumerate(fields[:MAX_COLUMNS], 1)
        if isinstance(field, dict)
    ]


def _statistics(
    commit: Commit,
) -> output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet:
    """Return the commit's output: rows as its writer counted them, else those of its new files."""
    told = str((commit.operation_metrics or {}).get("numOutputRows", ""))
    rows = commit.rows_added if not commit.files_restated else None
    return output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=int(told) if told.isdecimal() else rows,
        size=commit.bytes_written,
        fileCount=commit.files_added - commit.files_restated,
    )
