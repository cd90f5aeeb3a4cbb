#!/usr/bin/env python3
"""Django's command line, with crawlctl's settings."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
    from crawlctl.commandline import run

    run(sys.argv)


if __name__ == "__main__":
    main()
