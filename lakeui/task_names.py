"""The names by which lakeui reaches the workers: it never imports them."""

RUN_JOB = "workers.run_job"
MIRROR_TABLE = "workers.mirror_table"
PREVIEW_TABLE = "workers.preview_table"
READ_CONFLICT_ROWS = "workers.read_conflict_rows"
MIRROR_ALL = "workers.mirror_all"
LOOK_AT_ORDER = "workers.look_at_order"
SWEEP_LEASES = "workers.sweep_leases"
FIRE_SCHEDULES = "workers.fire_schedules"
TIDY_UPLOADS = "workers.tidy_uploads"

SPARK_QUEUE = "spark"
LIGHT_QUEUE = "light"
