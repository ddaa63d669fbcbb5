"""Reports of this program's transactions to the dashboard: in the background, without Spark.

A report never fails a write and never holds it up. What cannot be sent now is kept on disk, within
bounds, and sent later; what is beyond the bounds is dropped, counted and said.
"""
