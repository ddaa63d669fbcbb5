"""Conflict errors of any engine, as people paste them: read, tied to a table, judged."""
