"""Lineage out: what jobs and reported transactions read and wrote, as OpenLineage events."""
