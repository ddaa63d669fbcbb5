"""Eligibility of a table and its writes for row-level concurrency, with fixes."""
