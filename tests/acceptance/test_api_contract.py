"""
Proves that the API does what its description says, for each role. Schemathesis makes the requests from the description
alone.
"""

import os
import re
import tomllib
from pathlib import Path

import pytest
import schemathesis
from knox.models import AuthToken
from schemathesis import engine
from schemathesis.engine.events import NonFatalError, ScenarioFinished

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from tests.support.api import make_user, make_world
from tests.support.processes import wait_for

CONFIGURATION = tomllib.loads((Path(__file__).parents[2] / "schemathesis.toml").read_text())
# Seconds for each role and phase.
SECONDS = int(os.environ.get("CRAWLCTL_TEST_CONTRACT_SECONDS", "5"))
PHASES = ("examples", "coverage", "fuzzing", "stateful")


@pytest.fixture
def address(machine):
    """Return the address of a web server without a cluster."""
    command = machine.start("serve", "--port", 0)
    pattern = r"http://127\.0\.0\.1:\d+"
    return wait_for(lambda: re.search(pattern, command.out + command.err), saying="the address of the web server")[0]


@pytest.mark.parametrize("role", [VIEWER, OPERATOR, ADMINISTRATOR])
def test_the_api_matches_its_description(address, role):
    make_world()
    _, token = AuthToken.objects.create(user=make_user(role))
    headers = {"Authorization": f"Token {token}"}
    findings, requests = [], dict.fromkeys(PHASES, 0)
    for phase in PHASES:
        for event in try_phase(phase, f"{address}/api/v1/schema/?format=json", headers):
            if isinstance(event, NonFatalError):
                findings.append(f"{event.label}: {event.info.format()}")
            elif isinstance(event, ScenarioFinished):
                requests[phase] += len(event.recorder.interactions)
                findings.extend(findings_of(event))

    assert not findings, "\n\n".join(findings)
    # The description has no examples of its own.
    assert [phase for phase, number in requests.items() if number < 10] in (["examples"], [])


def try_phase(phase, description, headers):
    """Yield the events of one phase. Each phase has its own time limit, so a slow machine skips no phase."""
    phases = {name: {**CONFIGURATION["phases"].get(name, {}), "enabled": name == phase} for name in PHASES}
    changes = {"max-time": SECONDS, "headers": headers, "phases": phases}
    configuration = schemathesis.Config.from_dict({**CONFIGURATION, **changes})
    loaded = schemathesis.openapi.from_url(description, config=configuration, headers=headers)
    return engine.from_schema(loaded).execute()


def findings_of(event):
    checks = (check for of_case in event.recorder.checks.values() for check in of_case)
    for info in (check.failure_info for check in checks if check.failure_info is not None):
        yield f"{event.phase.value} {event.label}: {info.failure.title}: {info.failure.message}\n{info.code_sample[:1000]}"
