"""The settings that decide conflicts: their current effect, and the effect of a change."""
