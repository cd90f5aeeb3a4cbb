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
        # Ctrl-C during an import ends the process. A KeyboardInterrupt could be lost, because the import may catch it.
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
