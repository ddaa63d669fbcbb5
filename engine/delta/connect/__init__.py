"""`delta.connect`: programs that import it find the API of both kinds of session here."""
