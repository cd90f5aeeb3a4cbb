#!/usr/bin/env python3
"""Django's command line, with crawlctl's settings."""

import gc
import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    # Loading makes hundreds of thousands of objects that stay. To look for garbage among them, again and again,
    # took a fourth of the time until a command could begin. `crawlctl.commandline` collects again from then on.
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Raised while something is imported, an exception may be taken for one of the import's own, and be lost.
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(_INTERRUPTED))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
    try:
        from crawlctl.commandline import run

        run(sys.argv)
    except KeyboardInterrupt:
        # An interrupted command shows no traceback.
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
