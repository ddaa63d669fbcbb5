"""Recorded histories played again under other settings."""
