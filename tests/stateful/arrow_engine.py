"""An executor of commands without Spark: Arrow, real Parquet files, the engine's own transactions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.operations.vacuum_plan import paths_of
from engine.protocol.clustering import CLUSTERING_DOMAIN
from engine.protocol.features import list_supported_features, upgrade
from engine.schema.column_mapping import MAX_ID_KEY, assign_mapping
from engine.schema.types import INTEGER, StructField, StructType
from engine.snapshot.new_table import build_clustering_domain
from engine.snapshot.reader import read_file
from engine.snapshot.snapshot import Snapshot
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from tests.stateful import commands as c
from tests.stateful.arrow_files import ROW_INDEX, Files, check_typed, extra_of, read_rows, removal
from tests.stateful.typed_values import type_of

OPERATIONS: Mapping[type[c.Command], str] = {
    c.Append: "WRITE",
    c.Delete: "DELETE",
    c.Update: "UPDATE",
    c.Merge: "MERGE",
    c.InsertSelect: "WRITE",
    c.ReplaceWhere: "WRITE",
    c.Overwrite: "WRITE",
    c.Truncate: "TRUNCATE",
    c.Optimize: "OPTIMIZE",
    c.Reorg: "REORG",
    c.Restore: "RESTORE",
}
ALTERATIONS = {
    "set": "SET TBLPROPERTIES",
    "constrain": "ADD CONSTRAINT",
    "cluster": "CLUSTER BY",
    "feature": "UPGRADE PROTOCOL",
    "add": "ADD COLUMNS",
    "drop": "DROP COLUMNS",
    "rename": "RENAME COLUMN",
}


@dataclass
class Running:
    """A command whose transaction has staged all it does."""

    command: c.Command
    txn: OptimisticTransaction
    operation: str
    staged: tuple[Action, ...] = ()


class GivenUpError(Exception):
    """A command would write a row that the table does not allow, or restore files that are gone."""


def rows_of(snapshot: Snapshot) -> c.Rows:
    """Return the table's rows, after checking that none occurs twice."""
    if not snapshot.file_count:
        return {}
    rows = snapshot.to_arrow()
    keys = rows["u"].to_pylist()
    assert len(keys) == len(set(keys)), f"rows doubled: {sorted(keys)}"
    if typed := type_of(snapshot.schema):
        check_typed(rows, typed)
    return read_rows(rows)


def row_ids_of(snapshot: Snapshot) -> dict[tuple[str, int], int]:
    """The stable id of every live row, by its identity and the command that last changed it."""
    files, row_ids = Files(snapshot, stats=True), {}
    for add in snapshot.add_files():
        rows = read_file(snapshot, add, with_positions=True)
        ids = files.row_ids(add)[rows[ROW_INDEX].to_numpy()].tolist()
        names = zip(rows["u"].to_pylist(), rows["n"].to_pylist(), strict=True)
        row_ids |= dict(zip(names, ids, strict=True))
    return row_ids


def state_of(snapshot: Snapshot) -> c.State:
    """The table as histories know it."""
    said = snapshot.metadata.configuration
    terms = {k: v for k, v in said.items() if k.startswith("note.") or k == c.CONSTRAINT}
    have = list_supported_features(snapshot.protocol)
    terms |= {f"feature {name}": "supported" for name in c.FEATURES if name in have}
    if snapshot.clustering_columns:
        terms["clustered by"] = snapshot.clustering_columns[0]
    extra = extra_of(snapshot.schema.names)
    return c.State(rows_of(snapshot), extra, terms)


def log_parameters(command: c.Command) -> dict[str, object]:
    """Return the log's record of a command: its condition, and the clauses of a MERGE."""
    match command:
        case c.Delete() | c.Update():
            return {"predicate": [command.where.sql]}
        case c.Merge():
            matched = [command.matched, *(command.first or ("",))[1:]]
            actions = {"shift": "update"}
            by_source = [command.otherwise] if command.unmatched_below is not None else []
            return {
                "matchedPredicates": _clauses(actions.get(a, a) for a in matched if a != "nothing"),
                "notMatchedPredicates": _clauses(["insert"] * command.inserts),
                "notMatchedBySourcePredicates": _clauses(by_source),
            }
    return {}


def _clauses(actions: Iterable[str]) -> list[dict[str, str]]:
    return [{"actionType": action} for action in actions]


def run(
    command: c.Command, table: DeltaTable, *, stats: bool, txn_id: str | None = None
) -> Running:
    """Read and stage a command; its transaction is left to be committed."""
    txn = table.start_transaction(txn_id=txn_id)
    assert txn.snapshot is not None
    operation = OPERATIONS.get(type(command), "")
    if isinstance(command, c.Alter):
        operation = ALTERATIONS[command.what]
    work = _Work(txn, txn.snapshot, stats=stats)
    try:
        if isinstance(command, c.Restore):
            command = replace(command, restored=work.restore(command, table))
        else:
            work.do(command)
    except GivenUpError:
        work.staged.clear()
    txn.stage(*work.staged)
    return Running(command, txn, operation, tuple(work.staged))


class _Work(Files):
    """The staging of one command."""

    def __init__(self, txn: OptimisticTransaction, snapshot: Snapshot, *, stats: bool) -> None:
        super().__init__(snapshot, stats=stats)
        self.txn = txn
        extra = extra_of(list(self.names))
        self.state = c.State(extra=extra, terms=dict(snapshot.metadata.configuration))
        self.changes: dict[str, c.Rows] = {}

    def do(self, command: c.Command) -> None:
        """Stage the command's changes, and its change files if the change feed needs them."""
        self._do(command)
        if not self.snapshot.properties.enable_change_data_feed:
            return
        vectors = self.snapshot.properties.enable_deletion_vectors
        rewrites = not vectors or getattr(command, "rewrite", False)
        if rewrites or isinstance(command, c.Update | c.Merge) or command.number % 2:
            self.write_changes(self.changes)

    def _do(self, command: c.Command) -> None:  # noqa: C901, PLR0912 - one a kind
        match command:
            case c.Append():
                self.insert(command.new_rows(self.state))
            case c.Delete():
                self.rewrite(command.where, None, command)
            case c.Update():
                self.rewrite(command.where, command, command)
            case c.Merge():
                self.merge(command)
            case c.InsertSelect():
                self.insert(command.new_rows(self.select(command.where), self.state))
            case c.ReplaceWhere():
                self.rewrite(command.where, None, c.Delete(command.number, promise=True))
                self.changes["insert"] = c.Append(command.number, command.values).new_rows(
                    self.state
                )
                self.insert(self.changes["insert"])
            case c.Overwrite():
                self.overwrite(command)
            case c.Truncate():
                self.txn.read_where(None, every_match_changes=True)
                self.remove_each(self.snapshot.add_files())
            case c.Optimize():
                self.optimize(command)
            case c.Reorg():
                for add in self.snapshot.add_files():
                    if add.deletion_vector is not None:
                        self.compact([add], sort=False, tagged=True)
            case c.Alter():
                self.alter(command)
            case _:
                raise AssertionError(command)

    def insert(self, rows: c.Rows) -> None:
        """Insert rows that keep the table's constraint."""
        if c.breaks_constraint(rows, self.state.terms):
            raise GivenUpError
        self.write(rows)

    def remove_each(self, adds: Iterable[AddFile]) -> None:
        for add in adds:
            self.remove(add)

    def select(self, where: c.Range) -> c.Rows:
        paths = self.txn.read_where(where.sql)["path"].to_pylist()
        matched: c.Rows = {}
        for add in self.snapshot.add_files(paths=paths):
            matched |= self.rows(add)
        return {key: row for key, row in matched.items() if where.holds(row)}

    def rewrite(self, where: c.Range, to: c.Update | None, command: c.Delete | c.Update) -> None:
        """Remove the rows that a condition selects; add them again, changed, if they are updated."""
        promise = bool(command.number % 3) if command.promise is None else command.promise
        read = self.txn.read_where(where.sql, every_match_changes=promise)
        gone: c.Rows = {}
        for add in self.snapshot.add_files(paths=read["path"].to_pylist()):
            rows = read_file(self.snapshot, add, with_positions=True)
            hit = {k: row for k, row in read_rows(rows).items() if where.holds(row)}
            if hit:
                self.take(add, rows, set(hit), rewrite=command.rewrite)
                gone |= hit
        if to is None:
            self.changes["delete"] = gone
            return
        images = {key: to.image(row) for key, row in gone.items()}
        self.changes |= {"update_preimage": gone, "update_postimage": images}
        self.insert(images)

    def merge(self, command: c.Merge) -> None:
        self.txn.match_rows_with(
            lambda rows: pa.array([command.reads(x) for x in rows["x"].to_pylist()], pa.bool_())
        )
        paths = self.txn.read_where(command.within)["path"].to_pylist()
        changed: c.Rows = {}
        joined: set[int | None] = set()
        for add in self.snapshot.add_files(paths=paths):
            rows = read_file(self.snapshot, add, with_positions=True)
            here = read_rows(rows)
            joined |= {row[1] for row in here.values() if command.joins(row[0])}
            hit = {key: row for key, row in here.items() if command.image(row) != row}
            if hit:
                self.take(add, rows, set(hit), rewrite=False)
                changed |= hit
        images = {key: image for key, row in changed.items() if (image := command.image(row))}
        new = command.new_rows(joined, self.state)
        self.changes |= {
            "delete": {key: row for key, row in changed.items() if key not in images},
            "update_preimage": {key: row for key, row in changed.items() if key in images},
            "update_postimage": images,
            "insert": new,
        }
        self.insert(images | new)

    def overwrite(self, command: c.Overwrite) -> None:
        gone = self.snapshot.add_files()
        if command.partitions:
            for part in command.parts:
                self.txn.read_where(f"part <=> '{part}'")
            gone = [add for add in gone if self.part_of(add) in command.parts]
        else:
            self.txn.read_whole_table()
        self.remove_each(gone)
        self.insert(c.Append(command.number, command.values).new_rows(self.state))

    def optimize(self, command: c.Optimize) -> None:
        live = sorted(self.snapshot.add_files(), key=lambda add: add.path)
        picked = [live[i] for i in sorted({p % len(live) for p in command.picks})] if live else []
        sort = command.sort or bool(self.snapshot.clustering_columns)
        for part in sorted({self.part_of(add) or "" for add in picked}):
            chosen = [add for add in picked if (self.part_of(add) or "") == part]
            if len(chosen) >= command.least:
                self.compact(chosen, sort=sort, tagged=command.tagged)

    def restore(self, command: c.Restore, table: DeltaTable) -> c.State:
        """Restore files, metadata and clustering, but not features. Give up if files are missing."""
        restored = table.snapshot(version=max(0, self.snapshot.version - command.back))
        self.txn.read_whole_table()
        before = {add.key: add for add in self.snapshot.add_files()}
        after = {add.key: add for add in restored.add_files()}
        gone = [removal(add, data_change=True) for key, add in before.items() if key not in after]
        back = [
            msgspec.structs.replace(add, data_change=True)
            for key, add in after.items()
            if key not in before
        ]
        store = self.snapshot.store
        if any(store.stat(path) is None for add in back for path in paths_of(store.root, add)):
            raise GivenUpError
        self.staged += [*gone, *back]
        if restored.metadata != self.snapshot.metadata:
            self.staged.append(restored.metadata)
        domain = restored.domains.get(CLUSTERING_DOMAIN)
        if domain is not None and domain != self.snapshot.domains.get(CLUSTERING_DOMAIN):
            self.staged.append(domain)
        return state_of(restored)

    def alter(self, command: c.Alter) -> None:
        match command.what:
            case "set":
                self._set(dict([command.term]))
            case "constrain":
                self.txn.read_whole_table()
                rows = rows_of(self.snapshot)
                if c.breaks_constraint(rows, dict([command.term])):
                    raise GivenUpError
                self._support("checkConstraints")
                self._set(dict([command.term]))
            case "cluster":
                mode = self.snapshot.mapping_mode
                self.staged.append(
                    build_clustering_domain(self.snapshot.schema, [command.value], mode)
                )
            case "feature":
                self._support(command.value)
            case _:
                self._reshape(command)

    def _support(self, feature: str) -> None:
        protocol = upgrade(self.snapshot.protocol, {feature})
        if protocol != self.snapshot.protocol:
            self.staged.append(protocol)

    def _set(self, properties: Mapping[str, str], schema: StructType | None = None) -> None:
        metadata = self.snapshot.metadata
        new = msgspec.structs.replace(
            metadata,
            configuration={**metadata.configuration, **properties},
            schema_string=metadata.schema_string if schema is None else schema.to_json(),
        )
        self.staged.append(new)

    def _reshape(self, command: c.Alter) -> None:
        """The extra column comes, goes, or gets another name."""
        fields, extra = self.snapshot.schema.fields, self.state.extra
        if (command.what == "add") != (extra is None):
            return
        if command.what == "add":
            fields = (*fields, StructField(command.column, INTEGER))
        elif command.what == "drop":
            fields = tuple(field for field in fields if field.name != extra)
        else:
            fields = tuple(
                replace(field, name=command.column) if field.name == extra else field
                for field in fields
            )
        properties, schema = {}, StructType(fields)
        if self.snapshot.mapping_mode != "none":
            highest = int(self.snapshot.metadata.configuration[MAX_ID_KEY])
            schema, highest = assign_mapping(schema, highest)
            properties = {MAX_ID_KEY: str(highest)}
        self._set(properties, schema)
