"""Every command by name: the one module to import commands from."""

from engine.commands.alter import (
    AddColumns,
    AddConstraint,
    ChangeColumn,
    ClusterBy,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
)
from engine.commands.command import COMMANDS, Command
from engine.commands.definition import Clone, Create, SetProperties, UnsetProperties
from engine.commands.fields import Parameter, parameters_of
from engine.commands.maintenance import Optimize, Reorg, Restore, Vacuum
from engine.commands.merge import AnalyzedClause, AnalyzedMerge, Merge, MergeClause
from engine.commands.script import AtomicScript, Script
from engine.commands.sources import (
    SOURCES,
    DataFrameSource,
    FileSource,
    QuerySource,
    RowsSource,
    Source,
    TableSource,
)
from engine.commands.stream import Stream
from engine.commands.writes import Append, Delete, Overwrite, Truncate, Update

__all__ = [
    "COMMANDS",
    "SOURCES",
    "AddColumns",
    "AddConstraint",
    "AnalyzedClause",
    "AnalyzedMerge",
    "Append",
    "AtomicScript",
    "ChangeColumn",
    "Clone",
    "ClusterBy",
    "Command",
    "Create",
    "DataFrameSource",
    "Delete",
    "DropColumns",
    "DropConstraint",
    "DropFeature",
    "FileSource",
    "Merge",
    "MergeClause",
    "Optimize",
    "Overwrite",
    "Parameter",
    "QuerySource",
    "RenameColumn",
    "Reorg",
    "Restore",
    "RowsSource",
    "Script",
    "SetProperties",
    "Source",
    "Stream",
    "TableSource",
    "Truncate",
    "UnsetProperties",
    "Update",
    "Vacuum",
    "parameters_of",
]
