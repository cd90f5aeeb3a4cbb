"""
Proves that the API does what its description says. Schemathesis makes the requests from the description alone.

The requests are bounded by numbers, so each run makes the same requests. An administrator tries every operation in every
phase. Other roles differ only by refusals: test_roles.py has each operation with each role.
"""

import itertools
import os
import tomllib
from pathlib import Path

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections
from knox.models import AuthToken
from schemathesis import engine
from schemathesis.engine.events import NonFatalError, ScenarioFinished
from schemathesis.transport.wsgi import WSGITransport

from crawlctl.access.roles import ADMINISTRATOR
from tests.support.api import make_user, make_world

CONFIGURATION = tomllib.loads((Path(__file__).parents[2] / "schemathesis.toml").read_text())
# Number of cases that the phase "coverage" computes for each operation, before it sends two of them. With 0, all 14,000
# cases of all operations are sent, which takes ten minutes.
CASES = int(os.environ.get("CRAWLCTL_TEST_CONTRACT_CASES", "16"))
# The description has no examples, so the phase "examples" has no cases.
PHASES = ("coverage", "fuzzing", "stateful")
OF_A_NETWORK = {"max_redirects", "verify", "cert", "proxies"}


@pytest.fixture
def application(transactional_db, monkeypatch):
    """Return the application in this process. The thread that sends the requests uses the connection of the test."""
    kept, handler = connections["default"], WSGIHandler()

    def answer(environ, start_response):
        connections["default"] = kept
        return handler(environ, start_response)

    send = WSGITransport.send

    def send_in_process(transport, case, **options):
        # Schemathesis sends requests without a login with these options of a network connection. An application in the
        # process does not know them.
        return send(transport, case, **{name: value for name, value in options.items() if name not in OF_A_NETWORK})

    monkeypatch.setattr(WSGITransport, "send", send_in_process)
    kept.inc_thread_sharing()
    yield answer
    kept.dec_thread_sharing()


# Longer time limit than usual: each new operation makes this test longer, and a busy machine delays it.
@pytest.mark.timeout(1_200)
# Downloads are streams for a web server with an event loop, and this test has none.
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators")
@pytest.mark.parametrize("phase", PHASES)
def test_the_api_matches_its_description(application, phase):
    make_world()
    _, token = AuthToken.objects.create(user=make_user(ADMINISTRATOR))
    description = load(phase, application, {"Authorization": f"Token {token}"})
    operations = {found.ok().label for found in description.get_all_operations()}
    findings, tried = [], set()
    for event in engine.from_schema(description).execute():
        if isinstance(event, NonFatalError):
            findings.append(f"{event.label}: {event.info.format()}")
        elif isinstance(event, ScenarioFinished):
            tried |= {event.label for _ in event.recorder.interactions}
            findings.extend(findings_of(event))

    assert not findings, "\n\n".join(findings)
    assert tried if phase == "stateful" else tried == operations


def load(phase, application, headers):
    """Return the description, for the requests of one phase."""
    phases = {
        name: {**CONFIGURATION["phases"].get(name, {}), "enabled": name == phase} for name in ("examples", *PHASES)
    }
    configuration = schemathesis.Config.from_dict({**CONFIGURATION, "headers": headers, "phases": phases})
    address = "/api/v1/schema/?format=json"
    description = schemathesis.openapi.from_wsgi(address, application, config=configuration, headers=headers)
    if CASES:
        description.iter_coverage_cases = Sample(description.iter_coverage_cases)
    return description


class Sample:
    """
    Computes the first cases of an operation. Returns the first case and one other case.

    The position of the second case differs from operation to operation, so together these cases are of all kinds.
    """

    def __init__(self, make_cases):
        self._make_cases, self._numbers = make_cases, itertools.count(1)

    def __call__(self, operation, **how):
        first, *others = itertools.islice(self._make_cases(operation, **how), CASES)
        yield first
        if others:
            yield others[next(self._numbers) % len(others)]


def findings_of(event):
    checks = (check for of_case in event.recorder.checks.values() for check in of_case)
    for info in (check.failure_info for check in checks if check.failure_info is not None):
        yield f"{event.phase.value} {event.label}: {info.failure.title}: {info.failure.message}\n{info.code_sample[:1000]}"
