"""SQL text that the engine cannot parse as a whole, split at ANDs and comparisons.

Spark Connect leaves text to its server, so the text is split here by its words and symbols alone.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import functions as F  # noqa: N812

from engine.errors import StatementError
from engine.expressions.lexer import Token, tokenize
from engine.spark.column_nodes import CallNode, TextNode

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_BINDS_LESS = frozenset(
    ["OR", "NOT", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "IS", "BETWEEN", "EXISTS", "SELECT"]
)
_COMPARISONS = {"=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def split_text(node: TextNode) -> TextNode | CallNode:
    """Split the text at its top-level ANDs, else at its one comparison."""
    try:
        tokens = tokenize(node.sql)
    except StatementError:
        return node
    tokens = _strip_brackets(tokens)
    top = list(_top_level(tokens))
    words = {token.value for token in top if token.kind == "word"}
    if "OR" in words or "SELECT" in words:
        return node
    cuts = list(_conjunctions(top))
    if cuts:
        return CallNode(node.column, "and", tuple(_pieces(node.sql, tokens, cuts)))
    compared = [token for token in top if token.kind == "symbol" and token.value in _COMPARISONS]
    if len(compared) != 1 or words & _BINDS_LESS:
        return node
    sides = tuple(_pieces(node.sql, tokens, compared))
    return CallNode(node.column, _COMPARISONS[compared[0].value], sides)


def _strip_brackets(tokens: list[Token]) -> list[Token]:
    """Strip brackets around all tokens."""
    while (
        len(tokens) > 2
        and tokens[0].value == "("
        and _find_closing_bracket(tokens) == len(tokens) - 1
    ):
        tokens = tokens[1:-1]
    return tokens


def _find_closing_bracket(tokens: Sequence[Token]) -> int:
    depth = 0
    for index, token in enumerate(tokens):
        depth += _step(token)
        if depth == 0:
            return index
    return -1


def _step(token: Token) -> int:
    if token.kind == "symbol":
        return (token.value in _OPEN) - (token.value in _CLOSE)
    return (token.value == "CASE") - (token.value == "END") if token.kind == "word" else 0


def _top_level(tokens: Sequence[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        step = _step(token)
        if depth == 0 and step == 0:
            yield token
        depth += step


def _conjunctions(top: Sequence[Token]) -> Iterator[Token]:
    """Iterate over the ANDs between conditions, without those of BETWEEN."""
    between = 0
    for token in top:
        if token.kind != "word":
            continue
        if token.value == "BETWEEN":
            between += 1
        elif token.value == "AND" and between:
            between -= 1
        elif token.value == "AND":
            yield token


def _pieces(sql: str, tokens: Sequence[Token], cuts: Sequence[Token]) -> Iterator[TextNode]:
    start = tokens[0].position
    for end, after in [*((cut.position, cut.end) for cut in cuts), (tokens[-1].end, 0)]:
        text = sql[start:end].strip()
        yield TextNode(lambda text=text: F.expr(text), text)  # type: ignore[misc]
        start = after
