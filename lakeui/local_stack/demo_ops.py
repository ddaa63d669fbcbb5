"""Events with settings, telemetry in many small files, and visits rebuilt each night."""

from lakeui.local_stack.demo_data import (
    EVENTS,
    TELEMETRY,
    TELEMETRY_FILES,
    VISITS,
    VISITS_NIGHTS,
)
from lakeui.local_stack.demo_step import DemoJob, append, create, files, set_property

EVENTS_TABLE = "ops.events"
TELEMETRY_TABLE = "ops.device_telemetry"
VISITS_TABLE = "web.visits"

EVENTS_STEPS = (
    create("events", EVENTS_TABLE, EVENTS, source=files("events-1.parquet")),
    *(
        append(
            f"events-{part}",
            EVENTS_TABLE,
            f"events-{part}.parquet",
            "events" if part == 2 else f"events-{part - 1}",
        )
        for part in range(2, 7)
    ),
    DemoJob(
        "events-retention",
        "Set a property of ops.events while a delete runs",
        "schema-bot",
        EVENTS_TABLE,
        "set_properties",
        {"properties": {"delta.targetFileSize": "64mb"}},
        ("events-6",),
    ),
    DemoJob(
        "events-errors",
        "Delete error events: aborted by the property, then succeeds by its retry",
        "price-fixer",
        EVENTS_TABLE,
        "delete",
        {"where": "kind = 'error'"},
        ("events-6",),
        retries=2,
        commit_after="events-retention",
        may_lose=True,
    ),
    DemoJob(
        "events-optimize",
        "Compact the small files of ops.events",
        "opt-scheduler",
        EVENTS_TABLE,
        "optimize",
        after=("events-errors", "events-retention"),
    ),
    set_property(
        "events-times",
        "Keep commit times in the log of ops.events, which upgrades its protocol",
        EVENTS_TABLE,
        "delta.enableInCommitTimestamps",
        "true",
        "events-optimize",
    ),
    DemoJob(
        "events-searches",
        "Delete searches: aborted by the upgrade of the protocol",
        "gdpr-eraser",
        EVENTS_TABLE,
        "delete",
        {"where": "kind = 'search' AND customer_id < 40"},
        ("events-optimize",),
        commit_after="events-times",
        may_lose=True,
    ),
)

TELEMETRY_STEPS = (
    create("telemetry", TELEMETRY_TABLE, TELEMETRY, source=files("telemetry-1.parquet")),
    *(
        append(
            f"telemetry-{part}",
            TELEMETRY_TABLE,
            f"telemetry-{part}.parquet",
            "telemetry",
            account="telemetry-loader",
        )
        for part in range(2, TELEMETRY_FILES + 1)
    ),
)

VISITS_STEPS = (
    create(
        "visits",
        VISITS_TABLE,
        VISITS,
        account="lake-admin",
        properties={"delta.deletedFileRetentionDuration": "interval 0 seconds"},
        source=files("visits-1.parquet"),
    ),
    *(
        DemoJob(
            f"visits-{night}",
            "Build web.visits anew; the old files stay until VACUUM",
            "visit-builder",
            VISITS_TABLE,
            "overwrite",
            {"source": files(f"visits-{night}.parquet")},
            ("visits" if night == 2 else f"visits-{night - 1}",),
        )
        for night in range(2, VISITS_NIGHTS + 1)
    ),
)
