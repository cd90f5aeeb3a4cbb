"""The command `crawlctl`: Django's command line with crawlctl's settings. In a clone, `manage.py` runs it."""

import gc
import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    # Loading creates hundreds of thousands of objects that stay. Searches for garbage among them took a fourth of the
    # time until a command started. `crawlctl.commandline` enables collections again.
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An import may catch an exception that a signal raises in it, and the signal would be lost.
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(_INTERRUPTED))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
    try:
        from crawlctl.commandline import run  # noqa: PLC0415 - after the steps above

        run(["crawlctl", *sys.argv[1:]])
    except KeyboardInterrupt:
        # An interrupted command shows no traceback.
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
