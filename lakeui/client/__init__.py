"""A typed client of the REST interface: `Client` for programs, `AsyncClient` for event loops.

```python
from lakeui.client import Client

with Client("https://lake.example", token) as client:
    job = client.table("sales.orders").delete("day < '2024-01-01'").wait()
    print(job.committed_version)
```

It needs httpx (`pip install lakeui[client]`), no Django and no Spark.
"""

from lakeui.client.asynchronous import AsyncClient, AsyncJob, AsyncTable
from lakeui.client.errors import (
    ApiError,
    ClientError,
    JobCancelledError,
    JobFailedError,
    NotReachedError,
    WriteConflictError,
)
from lakeui.client.records import Conflict, JobRecord, JobState, TableRecord
from lakeui.client.synchronous import Client, Job, Table

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "AsyncTable",
    "Client",
    "ClientError",
    "Conflict",
    "Job",
    "JobCancelledError",
    "JobFailedError",
    "JobRecord",
    "JobState",
    "NotReachedError",
    "Table",
    "TableRecord",
    "WriteConflictError",
]
