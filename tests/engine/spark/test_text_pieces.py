"""A file read in pieces gives the same records, numbers and problems as read whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.spark.sources import (
    FilePiece,
    build_csv_counter,
    count_lines,
    number_pieces,
    pieces_of,
    read_piece,
)
from engine.storage.text_files import CsvDialect, TextFile, iter_csv, iter_lines

DIALECT = CsvDialect()
LINES = ["1,a", "2,b", "", "3", '4,"x,y"', '5,"say ""so"""', "6,b,c", ' 7 ,""', "äöü,ß", '"8",']


def _file(tmp_path, content):
    path = tmp_path / "rows.txt"
    path.write_bytes(content)
    return TextFile(str(tmp_path), path.name, len(content))


def _rows(batches):
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=repr)


def _pieces(file, piece_bytes, count):
    pieces = pieces_of(file, piece_bytes)
    return number_pieces(pieces, map(count, pieces))


def _read(pieces, read):
    for piece in pieces:
        text = None if piece.is_whole else read_piece(piece)
        yield from read(piece.file, text, piece.before)


def _csv(dialect):
    return lambda file, text, before: iter_csv(file, dialect, ["a", "b"], text=text, before=before)


@settings(derandomize=True)
@given(
    lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    closed=st.booleans(),
    header=st.booleans(),
    piece_bytes=st.integers(1, 40),
)
def test_a_csv_file_in_pieces_is_the_file(
    tmp_path_factory, lines, end, closed, header, piece_bytes
):
    content = (end.join(lines) + (end if closed else "")).encode()
    file = _file(tmp_path_factory.mktemp("csv"), content)
    dialect = CsvDialect(header=header)
    pieces = _pieces(file, piece_bytes, build_csv_counter(dialect))
    assert len(pieces) == max(1, -(-len(content) // piece_bytes))
    whole = _rows(iter_csv(file, dialect, ["a", "b"]))
    assert _rows(_read(pieces, _csv(dialect))) == whole


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n1,"two\nlines"\n2,c\n',
        'a,b\n5" , "multi\nline"\n',
        "a,b\n1,x\r2,y\n",
        'a,b\n1,"open\n2,c\n',
        'a,b\n1,"x"y\n2,c\n',
    ],
)
def test_a_csv_file_whose_lines_may_not_be_records_stays_whole(tmp_path, text):
    file = _file(tmp_path, text.encode())
    (piece,) = _pieces(file, 4, build_csv_counter(DIALECT))
    assert piece == FilePiece(file, 0, len(text))
    assert piece.is_whole


@settings(derandomize=True)
@given(
    lines=st.lists(st.sampled_from(['{"a": 1}', "", "  ", "not json", "x" * 30]), max_size=10),
    closed=st.booleans(),
    piece_bytes=st.integers(1, 50),
)
def test_lines_in_pieces_keep_their_numbers(tmp_path_factory, lines, closed, piece_bytes):
    content = ("\n".join(lines) + ("\n" if closed else "")).encode()
    file = _file(tmp_path_factory.mktemp("json"), content)
    pieces = _pieces(file, piece_bytes, count_lines)
    read = _read(pieces, lambda file, text, before: iter_lines(file, text=text, before=before))
    assert _rows(read) == _rows(iter_lines(file))
