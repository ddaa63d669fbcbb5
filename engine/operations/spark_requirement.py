"""Errors of a run without a Spark session."""

from engine.errors import RequestError


class NeedsSparkError(RequestError):
    """An operation needs Spark, in a run without a session."""

    REMEDY = (
        "Give a session of engine.spark.session.build_session, or run it as a job on a Spark"
        " worker."
    )

    def __init__(self, what: str, remedy: str = REMEDY) -> None:
        super().__init__(what, remedy, field="kind")
