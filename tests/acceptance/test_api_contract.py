"""
Proves that the API does what its description says, for each role. Schemathesis makes the requests from the description
alone.

The requests are bounded by numbers, so each run makes the same requests. Every operation is tried in every phase by an
administrator, and in one phase by each other role.
"""

import itertools
import os
import re
import tomllib
from collections import defaultdict
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
# The phase "coverage" has some 10,000 cases. One of this number of cases is sent. With 1, all of them are, which takes
# ten minutes.
STRIDE = int(os.environ.get("CRAWLCTL_TEST_CONTRACT_STRIDE", "60"))
PHASES = ("examples", "coverage", "fuzzing", "stateful")
# Other roles differ from an administrator only by refusals, which one case of each operation shows (test_roles.py has
# each operation with each role). This phase does not compute the 10,000 cases of which few are sent.
PHASES_OF_OTHERS = ("fuzzing",)
ROLES = (VIEWER, OPERATOR, ADMINISTRATOR)


@pytest.fixture
def address(machine):
    """Return the address of a web server without a cluster."""
    command = machine.start("serve", "--port", 0)
    pattern = r"http://127\.0\.0\.1:\d+"
    return wait_for(lambda: re.search(pattern, command.out + command.err), saying="the address of the web server")[0]


# Each new operation makes it longer, and a busy machine delays it.
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("role", ROLES)
def test_the_api_matches_its_description(address, role):
    make_world()
    _, token = AuthToken.objects.create(user=make_user(role))
    headers = {"Authorization": f"Token {token}"}
    findings = []
    phases, cases = (PHASES, 2) if role == ADMINISTRATOR else (PHASES_OF_OTHERS, 1)
    tried = {phase: set() for phase in phases}
    operations = set()
    for phase in phases:
        description = load(phase, f"{address}/api/v1/schema/?format=json", headers, cases=cases)
        operations |= {found.ok().label for found in description.get_all_operations()}
        for event in engine.from_schema(description).execute():
            if isinstance(event, NonFatalError):
                findings.append(f"{event.label}: {event.info.format()}")
            elif isinstance(event, ScenarioFinished):
                tried[phase] |= {event.label for _ in event.recorder.interactions}
                findings.extend(findings_of(event))

    assert not findings, "\n\n".join(findings)
    assert tried["fuzzing"] == operations
    if role == ADMINISTRATOR:
        assert tried["coverage"] == operations
        assert tried["stateful"]


def load(phase, address, headers, *, cases):
    """Return the description, for the requests of one phase. Random ones are `cases` for each operation."""
    phases = {name: {**CONFIGURATION["phases"].get(name, {}), "enabled": name == phase} for name in PHASES}
    generation = {**CONFIGURATION["generation"], "max-examples": cases}
    configuration = schemathesis.Config.from_dict(
        {**CONFIGURATION, "generation": generation, "headers": headers, "phases": phases}
    )
    description = schemathesis.openapi.from_url(address, config=configuration, headers=headers)
    if phase == "coverage":
        numbers = defaultdict(itertools.count)

        @description.hook("filter_case")
        def is_sent(context, case):
            return next(numbers[context.operation.label]) % STRIDE == 0

    return description


def findings_of(event):
    checks = (check for of_case in event.recorder.checks.values() for check in of_case)
    for info in (check.failure_info for check in checks if check.failure_info is not None):
        yield f"{event.phase.value} {event.label}: {info.failure.title}: {info.failure.message}\n{info.code_sample[:1000]}"
