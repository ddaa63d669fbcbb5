"""The swim-lane: who wrote when, what each met on its way in."""
