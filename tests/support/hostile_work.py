"""Work of a child that does what a hostile file could make it do."""

import os
import socket
import sys
import time
from pathlib import Path

from jobs.extraction.result import ExtractionFailed, Reason


class HostileWork:
    def prepare(self, arguments):
        if arguments.get("breaks"):
            sys.exit("broken on purpose")

    def do(self, facts, body):
        return {"said": getattr(self, facts["does"])(facts)}

    def answers(self, facts):
        return os.getpid()

    def exits(self, facts):
        os._exit(3)

    def hangs(self, facts):
        time.sleep(600)

    def computes(self, facts):
        while True:
            pass

    def allocates(self, facts):
        return len(bytes(2**31))

    def talks(self, facts):
        return "x" * (3 * 2**20)

    def prints_garbage(self, facts):
        os.write(1, b"not a number\n")
        time.sleep(600)

    def floods(self, facts):
        os.write(1, b"x" * (2 * 2**20))

    def nests(self, facts):
        body = b"[" * 100_000
        os.write(1, b"%d\n" % len(body))
        for start in range(0, len(body), 4_096):
            os.write(1, body[start : start + 4_096])
        time.sleep(600)

    def mumbles(self, facts):
        raise ExtractionFailed(Reason.DAMAGED, "a\0b\ud800")

    def refuses(self, facts):
        raise ExtractionFailed(Reason.ENCRYPTED)

    def raises(self, facts):
        raise ZeroDivisionError

    def connects(self, facts):
        return _refused(lambda: socket.create_connection(("127.0.0.1", facts["port"])))

    def reads(self, facts):
        return _refused(lambda: Path("/etc/hostname").read_bytes())

    def writes(self, facts):
        return _refused(lambda: Path("/tmp/crawlctl-child").write_bytes(b"x"))

    def environment(self, facts):
        return sorted(os.environ)


def _refused(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"


HOSTILE = HostileWork()
