"""One write that lost: both sides, what would have helped, others like it."""
