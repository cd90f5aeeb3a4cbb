"""
The messages between a worker and its child: one line of JSON with the length of the body, then the body.

A file may take control of a child, which may then send any bytes. So answers are JSON, because parsing JSON executes
nothing.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from jobs.extraction.result import ExtractionFailed

READY: Final = b"ready\n"
# Keys of an answer: RESULT, or FAILED with the reason why there is no result and DETAIL with facts about it.
RESULT, FAILED, DETAIL = "result", "failed", "detail"


def request(facts: Mapping[str, Any], body: bytes) -> bytes:
    return json.dumps({"facts": facts, "length": len(body)}).encode() + b"\n" + body


def answer(result: Mapping[str, Any]) -> bytes:
    return _framed({RESULT: result})


def refusal(failure: ExtractionFailed) -> bytes:
    return _framed({FAILED: str(failure.reason), DETAIL: failure.detail})


def _framed(value: Mapping[str, Any]) -> bytes:
    body = json.dumps(value).encode()
    return str(len(body)).encode() + b"\n" + body
