"""Kinds of tasks for tests. Processes find them by CRAWLCTL_TASKS=tests.support.task_kinds:KINDS."""

import json
import os
import time
from pathlib import Path

from nodes.tasks.kinds import Kind

NAMED = "tests.support.task_kinds:KINDS"


class Broken(Exception):
    """The failure of a task that fails on purpose."""


def _write(path, line):
    """Append a line in one call, so that lines of several processes do not mix."""
    with Path(path).open("ab", buffering=0) as lines:
        lines.write(f"{line}\n".encode())


def _note(context, arguments):
    _write(arguments["file"], json.dumps({"task": context.task, "begins": True}))
    time.sleep(arguments.get("seconds", 0))
    _write(arguments["file"], json.dumps({"task": context.task, "begins": False}))
    return arguments.get("result")


def _fail(context, arguments):
    last = context.last_attempt
    if "file" in arguments:
        shown = None if last is None else {"class": last.exception, "message": last.message, "crashed": last.crashed}
        retry = {"retry": context.retry_number, "is_last": context.is_last_retry, "last": shown}
        _write(arguments["file"], json.dumps(retry))
    raise {"OSError": OSError, "Broken": Broken}[arguments.get("exception", "Broken")]("on purpose")


def _exit(context, _arguments):
    os._exit(9)


def _count(context, arguments):
    """Count until the task is cancelled. Then wait for the file `last_words`, so that a test can look before the end."""
    for number in range(1000):
        context.report({"counted": number})
        if context.is_cancelled():
            while "last_words" in arguments and not Path(arguments["last_words"]).exists():
                time.sleep(0.05)
            return number
        time.sleep(0.05)
    return 1000


def _grow(_context, arguments):
    return len(bytearray(os.urandom(1) * (arguments["megabytes"] * 2**20)))


FILE = {"type": "string"}
KINDS = (
    Kind(
        name="note",
        title="Write to a file",
        run=_note,
        properties={"file": FILE, "seconds": {"type": "number"}, "result": {}},
        required=("file",),
    ),
    Kind(name="fail", title="Fail", run=_fail, properties={"exception": {"type": "string"}, "file": FILE}),
    Kind(name="exit", title="Kill its worker", run=_exit),
    Kind(name="count", title="Count, and report it", run=_count, properties={"last_words": FILE}),
    Kind(name="grow", title="Use memory", run=_grow, properties={"megabytes": {"type": "integer"}}),
)
