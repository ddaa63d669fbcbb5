"""The swim-lane: writers, their times, and overlapping versions."""
