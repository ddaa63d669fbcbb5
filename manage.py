#!/usr/bin/env python
"""The command `lakeui`, in a checkout."""

from lakeui.__main__ import main

if __name__ == "__main__":
    main()
