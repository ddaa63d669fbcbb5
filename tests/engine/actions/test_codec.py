import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.codec import Action, decode, decode_lines, encode
from engine.actions.commit_info import CheckpointMetadata, CommitInfo, Sidecar, UnknownAction
from engine.actions.files import AddCDCFile, AddFile, DeletionVectorDescriptor, RemoveFile
from engine.actions.table import DomainMetadata, Format, Metadata, Protocol, SetTransaction
from engine.errors import EngineError, MalformedLogError

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 2**63 - 1)
VALUES = st.dictionaries(TEXT, st.none() | TEXT, max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


VECTORS = st.builds(
    DeletionVectorDescriptor,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=TEXT,
    size_in_bytes=SIZES,
    cardinality=SIZES,
    offset=maybe(SIZES),
)
FILE_FIELDS: dict[str, Any] = {
    "stats": maybe(TEXT),
    "tags": maybe(VALUES),
    "deletion_vector": maybe(VECTORS),
    "base_row_id": maybe(LONGS),
    "default_row_commit_version": maybe(LONGS),
}
EXTRA = st.dictionaries(
    TEXT.map(lambda name: f"x-{name}"), JSON.filter(lambda v: v is not None), max_size=2
)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        AddFile,
        path=TEXT,
        partition_values=VALUES,
        size=SIZES,
        modification_time=LONGS,
        data_change=st.booleans(),
        clustering_provider=maybe(TEXT),
        **FILE_FIELDS,
    ),
    st.builds(
        RemoveFile,
        path=TEXT,
        data_change=st.booleans(),
        deletion_timestamp=maybe(LONGS),
        extended_file_metadata=maybe(st.booleans()),
        partition_values=maybe(VALUES),
        size=maybe(SIZES),
        **FILE_FIELDS,
    ),
    st.builds(AddCDCFile, path=TEXT, partition_values=VALUES, size=SIZES, tags=maybe(VALUES)),
    st.builds(
        Metadata,
        id=TEXT,
        schema_string=TEXT,
        format=st.builds(Format, provider=TEXT, options=VALUES),
        partition_columns=st.lists(TEXT, max_size=3),
        configuration=st.dictionaries(TEXT, TEXT, max_size=3),
        name=maybe(TEXT),
        description=maybe(TEXT),
        created_time=maybe(LONGS),
    ),
    st.builds(
        Protocol,
        min_reader_version=st.integers(0, 9),
        min_writer_version=st.integers(0, 9),
        reader_features=maybe(st.lists(TEXT, max_size=3)),
        writer_features=maybe(st.lists(TEXT, max_size=3)),
    ),
    st.builds(SetTransaction, app_id=TEXT, version=LONGS, last_updated=maybe(LONGS)),
    st.builds(DomainMetadata, domain=TEXT, configuration=TEXT, removed=st.booleans()),
    st.builds(CheckpointMetadata, version=LONGS, tags=maybe(VALUES)),
    st.builds(Sidecar, path=TEXT, size_in_bytes=SIZES, modification_time=LONGS, tags=maybe(VALUES)),
    st.builds(
        CommitInfo,
        timestamp=maybe(LONGS),
        operation=maybe(TEXT),
        operation_parameters=maybe(st.dictionaries(TEXT, JSON, max_size=2)),
        operation_metrics=maybe(VALUES),
        read_version=maybe(LONGS),
        is_blind_append=maybe(st.booleans()),
        txn_id=maybe(TEXT),
        in_commit_timestamp=maybe(LONGS),
        extra=EXTRA,
    ),
)


@given(ACTIONS)
def test_an_action_survives_its_line(action: Action):
    line = encode(action)
    assert "\n" not in line
    assert decode(line) == action
    assert decode(line.encode()) == action


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_an_action_or_a_typed_error(line: str | bytes):
    try:
        assert decode(line) is not None
    except EngineError:
        return


@given(
    st.sampled_from(
        [
            "add",
            "remove",
            "cdc",
            "metaData",
            "protocol",
            "txn",
            "domainMetadata",
            "commitInfo",
            "sidecar",
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            [
                "path",
                "size",
                "partitionValues",
                "dataChange",
                "modificationTime",
                "stats",
                "tags",
                "id",
                "schemaString",
                "configuration",
                "minReaderVersion",
                "minWriterVersion",
                "appId",
                "version",
                "deletionVector",
                "domain",
                "removed",
                "timestamp",
                "operationParameters",
            ]
        ),
        JSON,
    ),
)
def test_fields_of_any_type_are_an_action_or_a_typed_error(name: str, fields: dict[str, Any]):
    try:
        action = decode(json.dumps({name: fields}))
    except EngineError:
        return
    assert isinstance(action, Action)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "null",
        "[]",
        "x",
        '{"add":{"path":"a"}}',
        '{"add":{"path":1,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}',
        '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}x',
        '{"add":{},"remove":{}}',
        '{"add":null}',
        '{"protocol":{"minReaderVersion":"one","minWriterVersion":2}}',
        '{"add":{"path":"a","partitionValues":{},"size":99999999999999999999999,"modificationTime":1,"dataChange":true}}',
        '{"protocol":' + "[" * 100_000 + "]" * 100_000 + "}",
        b'{"txn":{"appId":"\xff","version":1}}',
        b"\xff\xfe",
        '{"txn":{"appId":"\\ud800","version":1}}',
    ],
)
def test_violations_of_the_protocol_are_refused(line: str | bytes):
    with pytest.raises(MalformedLogError):
        assert decode(line) is not None


@given(ACTIONS)
def test_a_file_is_decoded_in_one_pass_as_it_is_in_two(action: Action):
    line = encode(action)
    assert decode(line) == decode(f" {line}")


@pytest.mark.parametrize(
    "line",
    [
        b'{"add":null}',
        b'{"remove":null}',
        b'{"remote":{"path":"a"},"remove":null}',
        b'{"add":{"path":"a"},"remove":{"path":"a"}}',
        b'{"add":{"path":"a"}} {}',
        b'{"add":{"path":"a"}',
    ],
)
def test_a_line_that_begins_like_a_file_is_judged_as_a_whole(line: bytes):
    with suppress(MalformedLogError):
        assert decode(line) == decode(b" " + line)
        return
    with pytest.raises(MalformedLogError):
        decode(b" " + line)


def test_nulls_stand_for_absent_fields():
    line = '{"add":{"path":"a","partitionValues":{"p":null},"size":1,"modificationTime":1,"dataChange":true,"tags":null,"stats":null,"deletionVector":null}}'
    assert decode(line) == AddFile(
        path="a", partition_values={"p": None}, size=1, modification_time=1, data_change=True
    )
    assert decode(
        '{"metaData":{"id":"a","schemaString":"{}","partitionColumns":null,"configuration":null}}'
    ) == (Metadata(id="a", schema_string="{}"))


def test_required_fields_are_always_written():
    written = json.loads(encode(Metadata(id="a", schema_string="{}")))["metaData"]
    assert written == {
        "id": "a",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": "{}",
        "partitionColumns": [],
        "configuration": {},
    }
    cdc = json.loads(encode(AddCDCFile(path="a", partition_values={}, size=1)))["cdc"]
    assert cdc == {"path": "a", "partitionValues": {}, "size": 1, "dataChange": False}


def test_a_commit_info_keeps_unknown_fields():
    line = '{"commitInfo":{"timestamp":"soon","operation":"WRITE","isBlindAppend":"yes","notebook":{"id":1},"version":7}}'
    info = decode(line)
    assert isinstance(info, CommitInfo)
    assert info.operation == "WRITE"
    assert info.timestamp is None
    assert info.version is None
    assert info.extra == {
        "timestamp": "soon",
        "isBlindAppend": "yes",
        "notebook": {"id": 1},
        "version": 7,
    }
    assert json.loads(encode(info)) == json.loads(line)


def test_a_commit_info_whose_known_fields_fit_keeps_the_others_too():
    line = '{"commitInfo":{"timestamp":5,"operation":"WRITE","userId":null,"notebook":{"id":1},"version":7,"extra":{"a":1}}}'
    info = decode(line)
    assert info == CommitInfo(
        timestamp=5,
        operation="WRITE",
        extra={"notebook": {"id": 1}, "version": 7, "extra": {"a": 1}},
    )
    assert decode('{"commitInfo":{"timestamp":5}}') == CommitInfo(timestamp=5)


ONE_OF_EACH = (
    AddFile(path="a", partition_values={}, size=1, modification_time=1, data_change=True),
    RemoveFile(path="a", data_change=True),
    AddCDCFile(path="a", partition_values={}, size=1),
    Metadata(id="a", schema_string="{}"),
    Protocol(min_reader_version=1, min_writer_version=2),
    SetTransaction(app_id="a", version=1),
    DomainMetadata(domain="a", configuration="{}", removed=False),
    CommitInfo(operation="WRITE"),
    CheckpointMetadata(version=1),
    Sidecar(path="a", size_in_bytes=1, modification_time=1),
)


@pytest.mark.parametrize("action", ONE_OF_EACH, ids=lambda action: type(action).__name__)
def test_unknown_actions_and_fields_beside_a_known_one_are_ignored(action: Action):
    ((name, fields),) = json.loads(encode(action)).items()
    unknown = {"future": {"add": 1}, "none": None, "number": 3}
    assert decode(json.dumps({**unknown, name: fields})) == action
    assert decode(json.dumps({name: fields, **unknown})) == action
    inside = decode(json.dumps({name: {**fields, "futureField": [1]}, **unknown}))
    if isinstance(action, CommitInfo):
        inside = msgspec.structs.replace(inside, extra={})
    assert inside == action


def test_a_line_of_unknown_actions_alone_is_unknown():
    assert decode('{"future":{"a":1},"other":2}') == UnknownAction(name="future", json='{"a":1}')


@pytest.mark.parametrize("second", ['"remove":{"path":"a","dataChange":true}', '"commitInfo":{}'])
def test_a_line_of_two_known_actions_is_refused(second: str):
    line = '{"txn":{"appId":"a","version":1},"future":{},' + second + "}"
    with pytest.raises(MalformedLogError, match="one action expected, found txn, "):
        decode(line)


@pytest.mark.parametrize("schema", ["", ',"schemaString":null'])
def test_metadata_that_says_no_schema_is_an_action(schema: str):
    line = '{"metaData":{"id":"a","name":"t","configuration":{"k":"v"}' + schema + "}}"
    action = decode(line)
    assert action == Metadata(id="a", name="t", configuration={"k": "v"})
    assert decode(encode(action)) == action


def test_an_unknown_action_is_kept_as_it_was():
    action = decode('{"future":{"a":[1, 2]}}')
    assert action == UnknownAction(name="future", json='{"a":[1, 2]}')
    assert encode(action) == '{"future":{"a":[1, 2]}}'


def test_empty_lines_of_a_commit_are_skipped():
    lines = b'\n{"txn":{"appId":"a","version":1}}\r\n  \n{"txn":{"appId":"b","version":2}}'
    assert [action.app_id for action in decode_lines(lines)] == ["a", "b"]


def test_an_empty_object_is_no_action_of_a_commit():
    data = b'{}\n {} \n{"txn":{"appId":"a","version":1}}\n'
    assert list(decode_lines(data)) == [SetTransaction(app_id="a", version=1)]


def test_values_that_writers_left_untyped_are_texts():
    configuration = '{"a":false,"b":5,"c":null,"d":"x","e":1.5}'
    metadata = decode(
        f'{{"metaData":{{"id":"a","schemaString":"","configuration":{configuration}}}}}'
    )
    assert isinstance(metadata, Metadata)
    assert metadata.configuration == {"a": "false", "b": "5", "d": "x", "e": "1.5"}
    added = decode(
        '{"add":{"path":"a","partitionValues":{"p":5,"q":true,"r":null},"size":1,'
        '"modificationTime":1,"dataChange":true}}'
    )
    assert isinstance(added, AddFile)
    assert added.partition_values == {"p": "5", "q": "true", "r": None}
    with pytest.raises(MalformedLogError):
        decode('{"metaData":{"id":"a","configuration":{"a":{}}}}')


def test_a_domain_whose_removal_is_null_is_there():
    domain = decode('{"domainMetadata":{"domain":"d","configuration":"{}","removed":null}}')
    assert domain == DomainMetadata(domain="d", configuration="{}", removed=False)
    with pytest.raises(MalformedLogError):
        decode('{"domainMetadata":{"domain":"d","configuration":"{}"}}')
