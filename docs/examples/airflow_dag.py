"""A DAG that deletes what is too old every night, then compacts."""

from datetime import UTC, datetime

from airflow.sdk import DAG
from airflow_lakeui import LakeuiOperator

with DAG(
    "retention", schedule="0 3 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False
):
    delete = LakeuiOperator(
        task_id="delete",
        table="sales.orders",
        statement="DELETE FROM sales.orders WHERE n < 2",
    )
    optimize = LakeuiOperator(
        task_id="optimize", table="sales.orders", statement="OPTIMIZE sales.orders"
    )
    delete >> optimize
