"""Every command by name: the one module to import commands from."""

from engine.commands.command import COMMANDS, Command
from engine.commands.definition import Create, SetProperties, UnsetProperties
from engine.commands.fields import Parameter, parameters_of
from engine.commands.maintenance import Optimize, Reorg, Restore, Vacuum
from engine.commands.sources import SOURCES, FileSource, RowsSource, Source, TableSource
from engine.commands.writes import Append, Delete, Overwrite, Truncate, Update

__all__ = [
    "COMMANDS",
    "SOURCES",
    "Append",
    "Command",
    "Create",
    "Delete",
    "FileSource",
    "Optimize",
    "Overwrite",
    "Parameter",
    "Reorg",
    "Restore",
    "RowsSource",
    "SetProperties",
    "Source",
    "TableSource",
    "Truncate",
    "UnsetProperties",
    "Update",
    "Vacuum",
    "parameters_of",
]
