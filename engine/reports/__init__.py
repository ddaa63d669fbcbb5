"""Reports of this program's transactions to the dashboard: in the background, without Spark.

A report never fails or delays a write. Undelivered reports are kept on disk, up to a limit, and
sent later; reports over the limit are dropped and counted, and the dashboard is told.
"""
