"""
No request causes a server error, whatever it contains.

Each address of the API gets bodies, fields, queries and ids that make no sense. It refuses them with errors of one
form, or carries out a request that happens to be valid. The tests read the operations from the description of the API.
"""

import json
import re
from collections import Counter
from urllib.parse import urlencode

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR
from crawlctl.web.description import description
from tests.support.api import document_id, make_user, make_world
from tests.support.api_description import operations
from tests.support.changes_by_api import authorize, give_token

pytestmark = pytest.mark.django_db

BODIES = [b"{", b"[[7]]", b'"text"', b'{"there is no such field": 1}', b'{"id": 1, "": {}, "request": []}']
VALUES = [None, -1, 2**80, "", "x" * 20_000, "\u202e\n", [None], [[{}]], {"a": {"b": []}}]
QUERIES = ["", "-1", "9" * 40, "\u202e"]
NO_TEXT = "a\x00b"
# A kind of object with a single address gets only the first four of these values.
IDS = [
    "%00",
    "9" * 40,
    "x",
    "-1",
    "0",
    "9223372036854775807",
    "9" * 19,
    "..%2f",
    "00000000-0000-0000-0000-000000000000",
    f"1-{'0' * 32}",
]
# Statuses of refusals: invalid, not found, wrong method or type, conflict. A 503 is possible because these tests have
# no main manager and no cluster of distributed jobs.
REFUSALS = {400, 404, 405, 409, 415, 503}
UNAVAILABLE = {"no_main", "coordination_unavailable"}
# Excluded: these addresses check passwords.
EXCLUDED = ("/api/v1/token/",)


class Requests:
    """Sends requests and records each wrong answer. Each request finds the same objects."""

    def __init__(self):
        self.world = make_world()
        authorize(self.world)
        give_token(self.world)
        self.ids = ids_of(self.world)
        self.client = APIClient(raise_request_exception=False)
        # One object is the user of all requests, so its permissions are read once. Roles have their own tests.
        self.client.force_authenticate(make_user(ADMINISTRATOR))
        self.seen, self.wrong = Counter(), []

    def ask(self, method, address, body=b"", query=None):
        with transaction.atomic():
            response = self.client.generic(
                method, address, body, content_type="application/json", QUERY_STRING=query or ""
            )
            transaction.set_rollback(True)
        self.seen[response.status_code] += 1
        if not (response.status_code < 300 or self._is_refusal(response)):
            content = b"".join(response) if response.streaming else response.content
            self.wrong.append((method, address, query, body[:100], response.status_code, content[:200]))

    def _is_refusal(self, response):
        if response.status_code not in REFUSALS or response["Content-Type"] != "application/problem+json":
            return False
        problem = response.json()
        if response.status_code == 503 and problem["code"] not in UNAVAILABLE:
            return False
        return set(problem) <= {"title", "status", "code", "detail", "fields", "allowed"} and problem[
            "detail"
        ].endswith((".", ")"))


@pytest.fixture
def requests():
    return Requests()


def asked_operations():
    """Yield the address, the method and the description of each operation of these tests."""
    for address, method, operation in operations():
        if not address.startswith(EXCLUDED):
            yield address, method.upper(), operation


class Rotation:
    """
    Gives a few of the values to each of many fields (or parameters) of a kind, in turn.

    The same code reads all fields of a kind, and together they get all values. So each value reaches the code of each
    kind.
    """

    def __init__(self, values, *, each):
        self._values, self._each, self._given = values, each, Counter()

    def of(self, kind):
        """Return the next values for a field of this kind."""
        first = self._given[kind]
        self._given[kind] += self._each
        return [self._values[number % len(self._values)] for number in range(first, first + self._each)]


def fields_of(operation, schemas):
    """Return the description of each field of the request."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return properties(content.get("schema", {}), schemas)


def properties(schema, schemas):
    return schemas.get(schema.get("$ref", "").rpartition("/")[2], {}).get("properties", {})


def kind_of(field):
    """Return the type and the format of a field. The same code reads the values of all fields of one kind."""
    return field.get("type", "choice"), field.get("format")


def patches_of(fields, schemas, rotation):
    """For each field, and for each field of the objects in it, yield bodies with only this field."""
    for name, field in fields.items():
        for value in rotation.of(kind_of(field)):
            yield {name: value}
        for inner, of_inner in properties(field.get("items", {}), schemas).items():
            for value in rotation.of(kind_of(of_inner)):
                yield {name: [{inner: value}]}


def bodies_of(fields, rotation):
    """Return bodies with all fields, each of which has another value in each body."""
    values = {name: rotation.of(kind_of(field)) for name, field in fields.items()}
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def ids_of(world):
    """Return the id of an object of each kind. The key is the name of the kind in addresses."""
    return {
        "hosts": world.document.lane.bin_id,
        "documents": document_id(world.document),
        "jobs": world.job.pk,
        "policies": world.policy.pk,
        "repositories": world.repository.pk,
        "outputs": world.output.pk,
        "nodes": world.node.pk,
        "groups": world.group.pk,
        "requests": world.request.pk,
        "queue": "csv",
        "seeds": world.job.seeds.get().pk,
        "versions": 1,
        "deleted-jobs": 1,
        "job-chains": 1,
        **dict.fromkeys(("notification-channels", "notification-rules", "notification-messages", "report-mailings"), 1),
        "authority-groups": world.authority_group,
        "authority-connections": world.authority,
        "mapping-connections": world.mapping,
        "api-tokens": world.api_token,
        "service-tokens": world.service_token,
        "tasks": world.task.pk,
        "archived-tasks": world.archived_task.pk,
        "task-templates": world.template.pk,
        "task-workers": world.task_worker.pk,
        "exports": world.export.pk,
        "archive-records": 1,
        "bulk": world.bulk.pk,
        "retention": "nodes",
        "trap-suspects": 1,
        "webmasters": "www.a.example",
        "verifications": 1,
        "runs": 1,
        "archive-verifications": 1,
    }


def filled(address, ids, *, value=None):
    """Return the address with the id of an existing object, or with a value, in place of each variable."""
    return re.sub(r"([a-z-]+)/\{[^}]+\}", lambda one: f"{one[1]}/{ids[one[1]] if value is None else value}", address)


def test_bodies_that_make_no_sense_cause_no_server_error(requests):
    for address, method, _operation in asked_operations():
        if method != "GET":
            for body in BODIES:
                requests.ask(method, filled(address, requests.ids), body)

    assert requests.wrong == []
    assert requests.seen[400] > 100


def test_fields_that_make_no_sense_cause_no_server_error(requests):
    schemas, rotation = description()["components"]["schemas"], Rotation(VALUES, each=3)
    for address, method, operation in asked_operations():
        # A PATCH needs no other fields, so one value alone reaches its
        # checks. Elsewhere missing fields would be reported first.
        fields = fields_of(operation, schemas)
        bodies = patches_of(fields, schemas, rotation) if method == "PATCH" else bodies_of(fields, rotation)
        for body in bodies:
            requests.ask(method, filled(address, requests.ids), json.dumps(body).encode())

    assert requests.wrong == []
    assert requests.seen[400] > 100


def test_queries_that_make_no_sense_cause_no_server_error(requests):
    rotation = Rotation(QUERIES, each=2)
    for address, method, operation in asked_operations():
        if method == "GET":
            requests.ask(method, filled(address, requests.ids), query="no such question=7")
            for one in operation.get("parameters", ()):
                for value in (NO_TEXT, *rotation.of(kind_of(one["schema"]))) if one["in"] == "query" else ():
                    requests.ask(method, filled(address, requests.ids), query=urlencode({one["name"]: value}))

    assert requests.wrong == []
    assert requests.seen[400] > 100


def test_the_earliest_and_latest_moments_cause_no_server_error(requests):
    for address, method, operation in asked_operations():
        for one in operation.get("parameters", ()) if method == "GET" else ():
            if one["schema"].get("format") == "date-time" or one["name"] == "at":
                for value in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
                    requests.ask(method, filled(address, requests.ids), query=urlencode({one["name"]: value}))

    assert requests.wrong == []
    assert sum(requests.seen.values()) > 10


def test_no_list_ignores_an_unknown_parameter(requests):
    lists = [address for address, method, _ in asked_operations() if method == "GET" and "{" not in address]

    ignoring = [address for address in lists if requests.client.get(address, {"nosuch": "7"}).status_code != 400]

    assert len(lists) > 50
    assert ignoring == []


def test_no_resource_ignores_an_unknown_parameter(requests):
    resources = [address for address, method, _ in asked_operations() if method == "GET" and "{" in address]

    answers = {one: requests.client.get(filled(one, requests.ids), {"nosuch": "7"}).status_code for one in resources}

    assert {address: status for address, status in answers.items() if status not in {400, 404}} == {}
    assert list(answers.values()).count(400) > 40


def test_ids_of_missing_objects_cause_no_server_error(requests):
    rotation = Rotation(IDS, each=4)
    for address, method, _operation in asked_operations():
        if "{" in address:
            for value in rotation.of(address.split("/{")[0]):
                requests.ask(method, filled(address, requests.ids, value=value), b"{}")

    assert requests.wrong == []
    assert requests.seen[404] > 100
