"""One aborted write: both sides, how to avoid it, others like it."""
