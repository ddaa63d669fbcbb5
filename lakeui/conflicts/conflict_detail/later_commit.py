"""Whether the aborted write landed after all: by another attempt of its own, or by a job run again."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from lakeui.conflicts.models import Conflict, PipelineTransaction

_RERUNS_FOLLOWED = 4  # of one another


@dataclass(frozen=True, slots=True)
class LaterCommit:
    """The version of the later commit, and its job; None for a pipeline's."""

    version: int
    job_id: UUID | None
    is_same_job: bool


def find_later_commit(conflict: Conflict) -> LaterCommit | None:
    """Return the first commit of the job, of its reruns, or of the pipeline's other attempts.

    None: none so far, as known here.
    """
    job = conflict.job
    if conflict.kind == Conflict.Kind.RESOLVED:
        return None
    if job is None:
        return _find_pipeline_commit(conflict.transaction)
    if job.committed_version is not None:
        return LaterCommit(job.committed_version, job.pk, is_same_job=True)
    of_it = Q()
    for hops in range(1, _RERUNS_FOLLOWED + 1):
        of_it |= Q(**{"__".join(["retry_of"] * hops): job.pk})
    again = type(job).objects.filter(of_it, committed_version__isnull=False)
    row = again.order_by("finished_at").values_list("committed_version", "pk").first()
    if row is None or row[0] is None:
        return None
    return LaterCommit(row[0], row[1], is_same_job=False)


def _find_pipeline_commit(aborted: PipelineTransaction | None) -> LaterCommit | None:
    """Return the commit of a later attempt of the same run."""
    if aborted is None or not aborted.run_id:
        return None
    run = PipelineTransaction.objects.filter(pipeline=aborted.pipeline_id, run_id=aborted.run_id)
    later = run.filter(
        table=aborted.table_id, attempt__gt=aborted.attempt, committed_version__isnull=False
    )
    versions = later.order_by("attempt", "committed_version")
    version = versions.values_list("committed_version", flat=True).first()
    return None if version is None else LaterCommit(version, None, is_same_job=True)
