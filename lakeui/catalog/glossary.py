"""The glossary: the words of pages, REST and docs, each with its meaning and its place on the page.

`docs/glossary.md` has the same rows; a test holds the two together.
"""

from dataclasses import dataclass

from django.utils.text import slugify

from engine.conflicts.isolation import IsolationLevel


@dataclass(frozen=True, slots=True)
class Term:
    """A row of the glossary: words for one thing; the first word gives the anchor."""

    words: str
    meaning: str

    @property
    def anchor(self) -> str:
        """Return the part of the address after #."""
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
    Term("this transaction", "in an explanation, the transaction being checked"),
    Term(
        "concurrent, overlapping",
        "two transactions are concurrent if neither read the other's commit; the pair is an"
        " overlap",
    ),
    Term("winning commit", "the commit that came first"),
    Term(
        "conflict",
        "an overlap that made a check fail at file level; it aborts a write unless it is"
        " resolved at row level",
    ),
    Term("aborted", "a write that conflicted with a winning commit and wrote nothing"),
    Term(
        "resolved (at row level)",
        "a conflict whose sides changed the same files, but whose rows allowed both to commit",
    ),
    Term("rebased", "applied on top of commits made after the read version"),
    Term(
        "row level, file level",
        "the basis of a decision about a conflict: the rows that both sides read and changed,"
        " or whole files",
    ),
    Term(
        "row-level concurrency",
        "two operations that touch different rows of one file both commit",
    ),
    Term("eligible", "a table whose conflicts can be resolved at row level"),
    Term(
        "deletion vector",
        "a bitmap of the deleted rows of a data file, stored separately from the file",
    ),
    Term(
        "restated file, updated deletion vector",
        "a file that the log names again, with another deletion vector; none of its rows was"
        " rewritten",
    ),
    Term(
        "row tracking",
        "a table feature that gives every row a permanent id, so that rows can be traced"
        " through a compaction",
    ),
    Term("blind append", "a write that only adds rows and reads nothing of the table"),
    Term(
        "isolation level",
        "`WriteSerializable` (the default) or `Serializable`: the orders of writes that a"
        " table allows",
    ),
    Term(
        str(IsolationLevel.SNAPSHOT),
        "the level at which OPTIMIZE and other commits that change no data are checked,"
        " regardless of the table's level: they only move rows that they have read, so added files"
        " do not matter to them",
    ),
    Term(
        "out-of-order version",
        "under `WriteSerializable`, a version whose state no prefix of the history explains:"
        " its write did not see a blind append that is recorded before it and takes effect"
        " after it",
    ),
    Term("suggested fix", "a change that would avoid such a conflict next time"),
    Term("wasted", "time, bytes and work of aborted attempts"),
    Term("mirror", "the database's copy of the logs; it can be rebuilt"),
    Term("sync", "an update of the mirror to the latest version of a table"),
    Term("job", "one command that workers run, in one or more attempts"),
    Term("requested by, run as", "the person who started a job, and with whose rights it runs"),
    Term(
        "cancelling, cancelled",
        "a job is cancelling while its tasks still run after a request to cancel it, and then"
        " cancelled",
    ),
    Term("recovered", "a job that another worker took over after its worker died"),
    Term("needs attention", "a condition that a person should handle"),
    Term("unreachable", "a table, a store or a broker that does not respond"),
    Term("age", "the time since something happened"),
)
ANCHORS = frozenset(term.anchor for term in TERMS)
