"""A statement of `spark.sql` reads its own table under every name that the session has for it."""

from itertools import cycle

import pytest

from tests.engine.delta.conftest import rows_of
from tests.engine.operations.own_names import FORMS, ROWS
from tests.shares import share

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

_SPELLINGS = (("t", "T"), ("shop.t", "t"), ("t", "`shop`.`t`"))


@pytest.fixture
def fill(lake):
    """Return `fill()`, which fills shop.t with three rows; another database also has a table of that name."""
    lake.sql("CREATE TABLE default.t (id BIGINT, v STRING) USING delta")
    values = ", ".join(map(str, ROWS))

    def make() -> None:
        lake.sql("CREATE OR REPLACE TABLE shop.t (id BIGINT, v STRING) USING delta")
        lake.sql(f"INSERT INTO shop.t VALUES {values}")  # noqa: S608 - of this module

    lake.sql("INSERT INTO default.t VALUES (1, 'DECOY')")
    yield make
    lake.sql("DROP TABLE default.t")
    lake.sql("DROP TABLE shop.t")


def _is_blind(lake) -> bool:
    return bool(lake.sql("DESCRIBE HISTORY shop.t LIMIT 1").first().isBlindAppend)


def test_a_statement_of_a_session_reads_its_own_table(lake, fill):
    for form, (own, read) in zip(FORMS, cycle(_SPELLINGS), strict=False):
        fill()
        lake.sql(form.format(t=own, r=read))
        assert rows_of(lake.table("shop.t")) == FORMS[form], (form, own, read)
        assert not _is_blind(lake), (form, own, read)
    assert rows_of(lake.table("default.t")) == [(1, "DECOY")]


def test_a_statement_in_a_batch_of_a_stream_reads_its_own_table(lake, fill, tmp_path):
    lake.sql("CREATE OR REPLACE TABLE shop.events (id BIGINT) USING delta")
    lake.sql("INSERT INTO shop.events VALUES (0)")
    forms = share(2, [form for form in FORMS if form.startswith(("DELETE", "UPDATE", "MERGE"))])

    def apply(batch, number):
        for form in forms:
            fill()
            batch.sparkSession.sql(form.format(t="t", r="t"))
            left[form] = rows_of(lake.table("shop.t"))

    left: dict[str, object] = {}
    stream = lake.readStream.table("shop.events").writeStream.foreachBatch(apply)
    query = stream.option("checkpointLocation", str(tmp_path / "sums")).trigger(availableNow=True)
    query.start().awaitTermination(120)
    assert left == {form: FORMS[form] for form in forms}
    lake.sql("DROP TABLE shop.events")
