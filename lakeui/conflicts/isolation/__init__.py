"""The settings that decide who conflicts: what they do now, and what a change would do."""
