"""A deferrable operator for Airflow 3: requests a statement as a job, and waits in the triggerer.

Put this file where your DAGs import from, and install `lakeui[client]` beside Airflow. URL and token come
from LAKEUI_URL and LAKEUI_TOKEN, or from what you pass.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lakeui.client import AsyncClient, Client, ClientError, JobFailedError


class LakeuiOperator(BaseOperator):
    """Runs a statement on a table. While the job runs, the task holds no worker slot.

    A task that is tried again after its worker died finds the job that it had requested: the idempotency
    key is that of the task instance and its try.
    """

    template_fields: Sequence[str] = ("table", "statement")

    def __init__(
        self, *, table: str, statement: str, retries_of_job: int = 3, url: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.table, self.statement, self.url = table, statement, url
        self.retries_of_job = retries_of_job

    def execute(self, context: Any) -> None:
        instance = context["ti"]
        key = f"{instance.dag_id}/{instance.task_id}/{instance.run_id}/{instance.map_index}/{instance.try_number}"
        with Client(self.url) as client:
            table = client.table(self.table)
            job = table.sql(self.statement, retries=self.retries_of_job, idempotency_key=key)
        self.log.info("Requested job %s", job.id)
        trigger = LakeuiJobTrigger(job_id=job.id, url=self.url)
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Any, event: dict[str, Any]) -> int | None:
        """Return the committed version as the task's XCom."""
        if event["error"]:
            raise AirflowException(event["error"])
        return event["committed_version"]


class LakeuiJobTrigger(BaseTrigger):
    """Waits for a job by long polls."""

    def __init__(self, job_id: str, url: str = "") -> None:
        super().__init__()
        self.job_id, self.url = job_id, url

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "job_id": self.job_id,
            "url": self.url,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        told: dict[str, Any] = {"job_id": self.job_id, "committed_version": None, "error": ""}
        try:
            async with AsyncClient(self.url) as client:
                record = await (await client.job(self.job_id)).wait()
            told["committed_version"] = record.committed_version
        except JobFailedError as error:  # a conflict too: its message names the winning commit
            told["error"] = f"{error.job.error_code}: {error}"
        except ClientError as error:
            told["error"] = str(error)
        yield TriggerEvent(told)
