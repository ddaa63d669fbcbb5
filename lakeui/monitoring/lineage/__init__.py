"""Lineage export: the reads and writes of jobs and reported transactions, as OpenLineage events."""
