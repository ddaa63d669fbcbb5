"""Statements as logs and conflicts record them."""
