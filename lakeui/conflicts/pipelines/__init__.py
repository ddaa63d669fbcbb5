"""Programs elsewhere that report their transactions: the format, the checks, the storage."""
