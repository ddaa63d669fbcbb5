"""The rules that `prove_by_mutation` breaks: each occurs in the engine exactly once."""

from pathlib import Path

import pytest

from tests.stateful.mutation import Mutation
from tests.stateful.mutations import MUTATIONS

ENGINE = Path(__file__).resolve().parents[2] / "engine"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_rule_is_where_its_mutation_looks_for_it(mutation: Mutation):
    text = (ENGINE / mutation.path).read_text("utf-8")
    assert text.count(mutation.old) == 1
    assert mutation.new != mutation.old


def test_every_rule_has_a_name_of_its_own():
    assert len({mutation.rule for mutation in MUTATIONS}) == len(MUTATIONS)
