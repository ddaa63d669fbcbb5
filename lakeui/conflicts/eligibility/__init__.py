"""Whether a table and its writes take part in row-level concurrency, and what mends it."""
