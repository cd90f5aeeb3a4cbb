#!/usr/bin/env python3
"""The command `crawlctl` in a clone."""

from crawlctl.__main__ import main

if __name__ == "__main__":
    main()
