"""The child process: it confines itself, then answers one request after the other until its pipe closes."""

import encodings
import importlib
import json
import pkgutil
import sys
from collections.abc import Mapping
from typing import IO, Any

from jobs.extraction import confinement, protocol
from jobs.extraction.result import ExtractionFailed, Reason
from jobs.extraction.work import Work


def main(given: str) -> None:
    """Serve the worker until its pipe closes. `given` is JSON: parent, memory, seconds, work, arguments."""
    settings = json.loads(given)
    confinement.end_with_parent(settings["parent"])
    work = _load(settings["work"])
    _import_charsets()
    work.prepare(settings["arguments"])
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    confinement.confine(memory=settings["memory"])
    answers.write(protocol.READY)
    answers.flush()
    while line := requests.readline():
        header = json.loads(line)
        body = requests.read(header["length"])
        confinement.limit_computing(settings["seconds"])
        if not _serve(work, header["facts"], body, answers):
            return


def _load(name: str) -> Work:
    module, _colon, attribute = name.partition(":")
    work: Work = getattr(importlib.import_module(module), attribute)
    return work


def _import_charsets() -> None:
    """Import all charsets now: a confined process opens no file."""
    # The list of aliases is not enough: some charsets that e-mails name, such as utf-8-sig, have no alias.
    for module in pkgutil.iter_modules(encodings.__path__):
        try:
            importlib.import_module(f"encodings.{module.name}")
        except ImportError:
            # Some charsets exist on other operating systems only.
            continue


def _serve(work: Work, facts: Mapping[str, Any], body: bytes, answers: IO[bytes]) -> bool:
    """Answer a request. Return False if this child must not answer another one."""
    lives_on = True
    try:
        message = protocol.answer(work.do(facts, body))
    except ExtractionFailed as failure:
        message = protocol.refusal(failure)
    except RecursionError:
        message = protocol.refusal(ExtractionFailed(Reason.NESTED))
    except MemoryError:
        message, lives_on = protocol.refusal(ExtractionFailed(Reason.MEMORY)), False
    except Exception as error:  # noqa: BLE001 (whatever a file does to a reader, the worker gets an answer)
        message, lives_on = protocol.refusal(ExtractionFailed(Reason.CRASH, type(error).__name__)), False
    answers.write(message)
    answers.flush()
    return lives_on
