"""Values under the names that they had in version 0.1, for the fields that keep them until 0.3."""

from collections.abc import Mapping

from engine.conflict_facts import Verdict
from lakeui.monitoring.checks import AttentionCheck

STEP_WORDS: Mapping[Verdict, str] = {
    Verdict.EXEMPT: "exempt",
    Verdict.PASSES: "passed",
    Verdict.NEVER: "passed",
    Verdict.RESOLVED: "absorbed",
    Verdict.CONFLICT: "lost",
    Verdict.SAME_ROW: "open",
    Verdict.SAME_FILES: "open",
    Verdict.ALWAYS: "open",
    Verdict.UNDECIDABLE: "open",
}
"""Of a version that a transaction overlapped with."""
STEP_CHOICES = tuple(dict.fromkeys(STEP_WORDS.values()))

OVERLAP_WORDS: Mapping[Verdict, str] = {
    Verdict.PASSES: "passed",
    Verdict.RESOLVED: "absorbed",
    Verdict.CONFLICT: "lost",
}
"""Of an overlap that has ended."""
OVERLAP_CHOICES = tuple(OVERLAP_WORDS.values())

OUTLOOK_WORDS: Mapping[Verdict, str] = {
    Verdict.ALWAYS: "loses",
    Verdict.EXEMPT: "exempt",
    Verdict.NEVER: "passes",
    Verdict.SAME_ROW: "by rows",
    Verdict.SAME_FILES: "by files",
}
"""Of a job and what it did not see."""
OUTLOOK_CHOICES = tuple(OUTLOOK_WORDS.values())

FACTS: Mapping[AttentionCheck, Mapping[str, str]] = {
    AttentionCheck.ABORTED: {"by_files_30_days": "file_level_30_days"},
    AttentionCheck.METADATA_COST: {"lost": "aborted", "losers": "aborted_operations"},
}
"""Of what needs attention: former keys of `facts`, and whose values they have."""
