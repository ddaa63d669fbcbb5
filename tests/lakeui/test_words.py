"""Rules, levels, verdicts and job states have one home: other modules name them, never spell them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import django_filters
import pytest

from engine.conflict_facts import Rule
from engine.protocol.properties import IsolationLevel
from lakeui.jobs.models import Job, JobAttempt
from lakeui.pages import urls as _urls  # noqa: F401 - imports every filter set
from lakeui.pages.templatetags.lake import WORDS
from tests.readability import PRODUCT, trees

ROOT = Path(__file__).parents[2]
HOMES = {"engine/conflict_facts.py", "engine/protocol/properties.py"}
SPELLED = {*Rule, *IsolationLevel}
ASKED = re.compile(r'\|is:"([^"]*)"')
COMPARED = re.compile(
    r"\b(?:(?:job|after|attempt|bar)\.(?:state|outcome)|\w+\.(?:rule|isolation_level)) [!=]= \""
)
STATE = re.compile(r"(?:^|_)(?:state|outcome)(?:__in)?$")
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
GUIDES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


pytestmark = pytest.mark.xdist_group("words")  # one process parses and walks every file, once


@cache
def _sources() -> tuple[tuple[str, tuple[ast.AST, ...]], ...]:
    """Return each module with the nodes of its tree."""
    return tuple(
        (name, tuple(ast.walk(tree))) for name, tree in trees(*PRODUCT) if name not in HOMES
    )


def test_no_rule_and_no_level_is_spelled_out_where_its_enum_could_be_named():
    """Renaming a rule or level then fails the type check, and no page compares with the old name."""
    faults = [
        f"{name}:{node.lineno} {node.value}"
        for name, nodes in _sources()
        for node in nodes
        if isinstance(node, ast.Constant) and node.value in SPELLED
    ]
    assert not faults


def _names_a_state(node: ast.AST) -> list[ast.expr]:
    """Return the values that a query or a comparison expects of `state` or `outcome`."""
    if isinstance(node, ast.keyword) and STATE.search(node.arg or ""):
        return [node.value, *getattr(node.value, "elts", ())]
    if isinstance(node, ast.Compare) and STATE.search(getattr(node.left, "attr", "")):
        return [part for given in node.comparators for part in (given, *getattr(given, "elts", ()))]
    return []


def test_no_state_of_a_job_is_spelled_out():
    states = {*Job.State.values, *JobAttempt.Outcome.values}
    faults = [
        f"{name}:{part.lineno} {part.value}"
        for name, nodes in _sources()
        for node in nodes
        for part in _names_a_state(node)
        if isinstance(part, ast.Constant) and part.value in states
    ]
    assert not faults


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            name
            for path in TEMPLATES
            for names in ASKED.findall(path.read_text("utf-8"))
            for name in names.split()
        }
    ),
)
def test_names_used_in_a_template_exist(name: str):
    kind, _, member = name.partition(".")
    assert member in WORDS[kind].__members__


def test_no_template_compares_a_rule_a_level_a_verdict_or_a_state_with_a_text():
    faults = [
        f"{path.name}: {match}"
        for path in TEMPLATES
        for match in COMPARED.findall(path.read_text("utf-8"))
    ]
    assert not faults


def test_no_statement_is_cut_inside_a_text():
    """`short_condition` truncates between words; `truncatechars` does not recognize literals."""
    cut = re.compile(
        r"(statement|predicate|condition|raw|message|change\.(?:old|new))[^}]*\|truncatechars"
    )
    assert not [path.name for path in TEMPLATES if cut.search(path.read_text("utf-8"))]


def test_no_line_of_a_template_is_longer_than_120_characters():
    assert not [
        f"{path.relative_to(ROOT)}:{number}"
        for path in TEMPLATES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > 120
    ]


def _filter_sets(kind: type = django_filters.FilterSet) -> Iterator[type]:
    for narrower in kind.__subclasses__():
        yield narrower
        yield from _filter_sets(narrower)


def test_a_filter_is_named_in_words_for_people_and_its_parameter_described_for_programs():
    """Pages show the name before the value; programs read the help text."""
    labels = {
        f"{kind.__name__}.{name}": str(one.label)
        for kind in _filter_sets()
        for name, one in kind.base_filters.items()
        if name != "sort" and kind.__module__.startswith("lakeui")
    }
    assert len(labels) > 30
    assert not {name: text for name, text in labels.items() if re.search("[`=:;(]|eprecated", text)}
    assert not {name: text for name, text in labels.items() if len(text) > 35}


GONE = re.compile(
    r"\b(thrown away|told apart|tells? apart|writes? met|two met|asked for (?:by|after|,)|needs? a look"
    r"|in vain|by rows|by files|newest version|losers?|lost to|loses? to|would lose|lost write|losing write|alike|carried over"
    r"|upkeep|readded|settlement|contender|interventions|withheld|a sketch|audit trail|does not answer|winners?)\b",
    re.IGNORECASE,
)
"""Words of former versions: docs/glossary.md has what is said instead."""
SHOWN = re.compile(r'\b(?:title|aria-label|data-label|placeholder|alt)="([^"]*)"')


def _read_by_people(template: str) -> str:
    """Return the text of a template, and of attributes that are shown or read aloud."""
    text = re.sub(
        r"{% comment %}.*?{% endcomment %}|{#.*?#}|{%.*?%}|{{.*?}}", " ", template, flags=re.S
    )
    return " ".join([re.sub(r"<[^>]*>", " ", text), *SHOWN.findall(text)])


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_has_none_of_the_removed_words(path: Path):
    assert not GONE.findall(" ".join(_read_by_people(path.read_text("utf-8")).split()))


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_a_guide_has_none_of_the_removed_words(path: Path):
    prose = re.sub(r"```.*?```|`[^`]*`", " ", path.read_text("utf-8"), flags=re.S)
    assert not GONE.findall(" ".join(prose.split()))


GONE_IN_CODE = re.compile(
    r"\b(thrown away|threw away|told apart|t(?:ell|old)s? (?:\w+ )?apart|telling (?:\w+ )?apart|in vain"
    r"|needs? a look|asked for (?:by|after)|was asked for|may look at|newest (?:version|snapshot|commit|checkpoint|action)|against winners|bound to lose"
    r"|the losers?|a loser|lost to|loses? to|would lose(?! its)|writes? met|never existed|contender|readded"
    r"|upkeep|interventions|audit trail|typed name|(?:the|a|this|every|each|any|next|second) winners?|winner's|current's|conflicts? by (?:rows|files)|(?:write|attempt|transaction) that lost"
    r"|the newest by default)\b",
    re.IGNORECASE,
)
GONE_NAMES = re.compile(
    r"(?i)(?:^|_)(?:met|loser|losers|losing|losses|readded|contender|upkeep|thrown|settlement)(?:_|$)"
)
"""Parts of names; a field or column that keeps its old name is a text or an attribute of its class."""
KEPT_NAMES = {"lakeui/jobs/leases.py", "lakeui/settings.py"}  # workers that a job lost


def test_no_message_and_no_docstring_has_the_removed_words():
    faults = [
        f"{name}:{node.lineno}"
        for name, nodes in _sources()
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and GONE_IN_CODE.search(" ".join(node.value.split()))
    ]
    assert not faults


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names of a module's, class's or function's parts; fields of serializers are in OpenAPI."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def test_no_name_contains_a_removed_word():
    faults = [
        f"{name}: {given}"
        for name, nodes in _sources()
        if name not in KEPT_NAMES and not name.startswith("lakeui/api/")
        for node in nodes
        for given in (name.rpartition("/")[2].removesuffix(".py"), *_names(node))
        if GONE_NAMES.search(given)
    ]
    assert not faults


SAYS_NOTHING = {"each", "found", "wanted", "known"}
"""Of a local: what it holds should name it, `commit`, `missing_columns`. A stage's `found` and a preview's `wanted` are columns of the database."""


def _locals(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_a_local_is_named_after_its_value():
    faults = [
        f"{name}:{node.lineno} {given}"
        for name, nodes in _sources()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.Lambda)
        for given in _locals(node)
        if given in SAYS_NOTHING and (name, given) != ("lakeui/catalog/previews.py", "wanted")
    ]
    assert not faults


NEIGHBOUR = re.compile(
    r"(?:The same(?: for| of|,|\.)|As above|Likewise|Ditto|See above|As (?:`[A-Z]\w+\.\w+`|Spark's)"
    r"|Those\b|Of (?:all|it|them|these|those)\b|(?:By|In) [\w ]{,12}\.$)"
)


def _read_explanation(node: ast.AST) -> str:
    """Return the docstring of a class or a function, or the help text of a field."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return ast.get_docstring(node) or ""
    is_help = isinstance(node, ast.keyword) and node.arg == "help_text"
    return str(getattr(node.value, "value", "")) if is_help else ""


def test_every_docstring_and_every_help_text_stands_alone():
    """A text that depends on its neighbor is useless where it is shown: in a hint or in OpenAPI."""
    leaning = [
        f"{name}:{getattr(node, 'lineno', 0)} {text}"
        for name, nodes in _sources()
        for node in nodes
        if NEIGHBOUR.match(text := _read_explanation(node))
    ]
    assert not leaning
