"""A table as a Dagster asset: materialized by a job, with its version and metrics as metadata."""

from dagster import (
    AssetExecutionContext,
    ConfigurableResource,
    EnvVar,
    Failure,
    MaterializeResult,
    RetryRequested,
    asset,
)

from lakeui.client import Client, JobFailedError, WriteConflictError


class Lakeui(ConfigurableResource):
    """An installation. Without values the client takes LAKEUI_URL and LAKEUI_TOKEN."""

    url: str = ""
    token: str = ""

    def run(self, table: str, statement: str, key: str) -> MaterializeResult:
        """Run a statement as a job; the same key asks for the same job."""
        with Client(self.url, self.token) as client:
            try:
                job = client.table(table).sql(statement, idempotency_key=key).wait()
            except WriteConflictError as error:
                raise RetryRequested(max_retries=3, seconds_to_wait=30) from error
            except JobFailedError as error:
                raise Failure(f"{error.job.error_code}: {error}") from error
        return MaterializeResult(
            metadata={
                "version": job.committed_version if job.committed_version is not None else -1,
                "metrics": dict(job.metrics),
            }
        )


@asset
def orders_without_old_rows(context: AssetExecutionContext, lakeui: Lakeui) -> MaterializeResult:
    key = f"{context.run_id}/{context.asset_key.to_user_string()}/{context.retry_number}"
    return lakeui.run("sales.orders", "DELETE FROM sales.orders WHERE n < 2", key)


RESOURCES = {"lakeui": Lakeui(url=EnvVar("LAKEUI_URL"), token=EnvVar("LAKEUI_TOKEN"))}
