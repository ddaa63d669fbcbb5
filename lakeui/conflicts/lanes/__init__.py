"""The swim-lane: who wrote when, and with which versions it overlapped."""
