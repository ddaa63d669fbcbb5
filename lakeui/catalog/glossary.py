"""The glossary: the words of pages, REST and docs, each with its meaning and its place on the page.

`docs/glossary.md` has the same rows; a test holds the two together.
"""

from dataclasses import dataclass

from django.utils.text import slugify

from engine.conflicts.isolation import IsolationLevel


@dataclass(frozen=True, slots=True)
class Term:
    """A row: words for one thing, the first of which gives its anchor."""

    words: str
    meaning: str

    @property
    def anchor(self) -> str:
        """The part of the address after #."""
        return slugify(self.words.partition(",")[0].partition("(")[0])


TERMS = (
    Term("version", "one commit of a table, numbered from 0; also the state of the table after it"),
    Term("snapshot", "the state of a table at a version: its files, schema and properties"),
    Term("latest version", "the version with the highest number in the log"),
    Term("read version", "the version whose state a transaction read"),
    Term(
        "transaction",
        "one attempt of a write: it reads a version, stages actions, and commits or aborts",
    ),
    Term("this transaction", "in an explanation, the transaction that is being checked"),
    Term(
        "concurrent, overlapping",
        "of two transactions, neither of which read the other's commit; together they are an overlap",
    ),
    Term("winning commit", "the commit that was first"),
    Term(
        "conflict",
        "an overlap that a check stopped, or would have stopped had rows not resolved it",
    ),
    Term(
        "aborted", "of a write: it conflicted with a winning commit, and nothing of it was written"
    ),
    Term(
        "resolved (at row level)",
        "of a conflict: both sides changed the same files, their rows decided, and both committed",
    ),
    Term("rebased", "applied on top of commits that came later than the read version"),
    Term(
        "row level, file level",
        "what decided a conflict: the rows that both sides read and changed, or whole files",
    ),
    Term(
        "row-level concurrency", "two operations that touch different rows of one file both commit"
    ),
    Term("eligible", "of a table: its conflicts can be resolved at row level"),
    Term("deletion vector", "the rows of a data file that no longer count, as a bitmap beside it"),
    Term(
        "restated file, updated deletion vector",
        "a file that the log names again, with another deletion vector: no row of it was written",
    ),
    Term(
        "row tracking",
        "every row keeps an id for good, so that the rows of a compaction can be traced",
    ),
    Term("blind append", "a write that adds rows and reads nothing of the table"),
    Term(
        "isolation level",
        "`WriteSerializable` (the default) or `Serializable`: which orders of writes a table allows",
    ),
    Term(
        str(IsolationLevel.SNAPSHOT),
        "the level that OPTIMIZE and other commits that change no data are checked at, whatever the"
        " table's level: they only move rows that they read, so files added meanwhile do not concern them",
    ),
    Term(
        "out-of-order version",
        "under `WriteSerializable`, a version whose state no prefix of the history explains: its write"
        " did not see a blind append that is recorded before it and takes effect after it",
    ),
    Term("suggested fix", "what would avoid a conflict next time"),
    Term("wasted", "time, bytes and work of aborted attempts"),
    Term("mirror", "the database's copy of what the logs say; it can be rebuilt"),
    Term("sync", "bringing the mirror to the latest version of a table"),
    Term("job", "one command requested of the workers; it has attempts"),
    Term("requested by, run as", "the person who started a job, and whose rights it runs with"),
    Term("cancelling, cancelled", "of a job: asked to stop while its tasks still run, then ended"),
    Term("recovered", "of a job: another worker took it over after its worker died"),
    Term("needs attention", "what a person should see to"),
    Term("unreachable", "of a table, a store, a broker: no answer"),
    Term("age", "the time since something happened"),
)
ANCHORS = frozenset(term.anchor for term in TERMS)
