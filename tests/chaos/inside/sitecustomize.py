"""
The part of the chaos test inside of a daemon. Python imports this module from PYTHONPATH at its start, before ours.

So the product needs no switch for tests. CRAWLCTL_CHAOS is JSON:

    machine   the boot id that the node uses, so it shares no machine with other nodes
    mutant    pairs (pattern, replacement), applied to the source of each of our modules before it is compiled
    stops     function ("module:name") → file: if the function is called while the file exists, the file is
              removed and the process freezes until a SIGCONT
"""

import functools
import importlib.abc
import importlib.machinery
import json
import os
import re
import select
import signal
import sys
import time
from pathlib import Path

_ORDERS = json.loads(os.environ.get("CRAWLCTL_CHAOS", "{}"))
_OURS = ("nodes", "jobs")
_SERVER = "crawlctl.postgres.server"


class _Loader(importlib.machinery.SourceFileLoader):
    """
    A loader that compiles the changed source, and bypasses the cache of compiled modules, which has unchanged modules.
    """

    def get_code(self, fullname):
        if "mutant" not in _ORDERS:
            return super().get_code(fullname)
        source = Path(self.path).read_text(encoding="utf-8")
        for pattern, replacement in _ORDERS.get("mutant", ()):
            source = re.sub(pattern, replacement, source)
        return self.source_to_code(source.encode(), self.path)

    def exec_module(self, module):
        super().exec_module(module)
        if module.__name__ == "nodes.life.identity" and "machine" in _ORDERS:
            module._boot_id = lambda: _ORDERS["machine"]
        if module.__name__ == _SERVER and "wal_kept" in _ORDERS:
            module._OPTIONS["max_slot_wal_keep_size"] = _ORDERS["wal_kept"]
        for point, file in _ORDERS.get("stops", {}).items():
            place, _, name = point.partition(":")
            if place == module.__name__:
                setattr(module, name, _stopping(getattr(module, name), Path(file)))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] not in _OURS and fullname != _SERVER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def _stopping(function, file):
    @functools.wraps(function)
    def stops_here(*arguments, **named):
        if file.exists():
            file.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        return function(*arguments, **named)

    return stops_here


if _ORDERS:
    sys.meta_path.insert(0, _Finder())

if "libfaketime" in os.environ.get("LD_PRELOAD", ""):
    # time.sleep of Python waits for a moment of the monotonic clock. libfaketime 0.9.10 refuses this call while it does
    # not change that clock.
    time.sleep = functools.partial(select.select, (), (), ())
