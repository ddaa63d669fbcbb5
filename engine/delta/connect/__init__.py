"""The package `delta.connect`: the API serves both kinds of session here."""
