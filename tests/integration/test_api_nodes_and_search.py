"""The API lists nodes and their journal, and searches indexed documents."""

import datetime as dt

import pytest

from crawlctl.access.roles import VIEWER
from jobs.models import OutputConnection
from nodes.models import MainTerm, Node, NodeEvent
from tests.support.api import NOON, assert_problem, client_of, make_node
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

NODES = "/api/v1/nodes/"
EVENTS = "/api/v1/node-events/"
SEARCH = "/api/v1/search/"


@pytest.fixture
def viewer():
    return client_of(VIEWER)


def test_nodes_are_listed_newest_first_and_page_by_page(viewer):
    for number in range(5):
        make_node(f"worker-{number}", started_at=NOON + dt.timedelta(minutes=number // 2))

    address, names = f"{NODES}?limit=2", []
    while address:
        page = viewer.get(address).json()
        names += [node["name"] for node in page["results"]]
        address = page["next"]

    assert [name[-1] for name in names if name[-1] == "4"] == ["4"]
    assert names[0] == "worker-4"
    assert set(names[1:3]) == {"worker-2", "worker-3"}
    assert sorted(names) == [f"worker-{number}" for number in range(5)]


def test_the_main_manager_is_marked_in_the_list_of_nodes(viewer):
    main, other = make_node("manager-1", kind=Node.Kind.MANAGER), make_node("manager-2", kind=Node.Kind.MANAGER)
    MainTerm.objects.create(scope=main.scope, main=main, term=1, since=NOON)

    shown = {node["name"]: node["is_main"] for node in viewer.get(NODES).json()["results"]}

    assert shown == {main.name: True, other.name: False}


def test_nodes_are_found_by_kind_and_status(viewer):
    make_node("gone", status=Node.Status.FAILED, stopped_at=NOON)
    alive = make_node("alive")

    found = viewer.get(f"{NODES}?kind=worker&status=running").json()["results"]

    assert [node["id"] for node in found] == [str(alive.pk)]
    assert_problem(viewer.get(f"{NODES}?status=tired"), 400, "invalid", fields=["status"])


def test_events_of_a_node_are_listed_newest_first(viewer):
    node, other = make_node(), make_node("other")
    for kind in (NodeEvent.Kind.REGISTERED, NodeEvent.Kind.RUNNING):
        NodeEvent.objects.create(node=node, scope=node.scope, kind=kind, message="something")
    NodeEvent.objects.create(node=other, scope=node.scope, kind=NodeEvent.Kind.REGISTERED, message="something")

    found = viewer.get(f"{EVENTS}?node={node.pk}").json()["results"]

    assert [event["kind"] for event in found] == ["running", "registered"]
    assert_problem(viewer.get(f"{EVENTS}?node=1"), 400, "invalid", fields=["node"])


def test_a_search_without_a_match_returns_an_empty_page(viewer):
    OutputConnection.objects.create(name="index", connector="search")

    empty = {"results": [], "total": 0, "has_more": False, "next": None, "silent": []}
    assert viewer.get(f"{SEARCH}?q=nothing").json() == empty


@each_row(
    ("query", "field"),
    [
        ("", "q"),
        ("q=", "q"),
        ("q=%00", "q"),
        ("q=" + "x" * 1001, "q"),
        ("q=x&limit=101", "limit"),
        ("q=x&page=2", "page"),
        ("q=x&cursor=y", "q"),
    ],
)
def test_a_search_refuses_invalid_parameters(viewer, query, field):
    assert_problem(viewer.get(f"{SEARCH}?{query}"), 400, "invalid", fields=[field])


@each_row("query", ["'", '"', "%27%20OR%201=1--", "%5C", "%7F", "a%20%26%20!b", "%F0%9F%98%80"])
def test_any_text_may_be_searched_for(viewer, query):
    assert viewer.get(f"{SEARCH}?q={query}").status_code == 200
