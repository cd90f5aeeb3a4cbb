"""
Proves that a search returns only documents that the tokens of its user may see: on the page and in the API.
"""

import datetime as dt
import itertools
import uuid

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.authorities import verbs
from jobs.authorities.models import AuthorityConnection
from jobs.connectors.output.base import Entry
from jobs.connectors.output.search import SearchConfiguration, SearchOutput
from jobs.connectors.repository.access import OPEN, Access, Level
from jobs.connectors.repository.base import Content
from jobs.duties.index import index_waiting_texts
from jobs.models import OutputConnection
from jobs.queries.documents import search as searching
from jobs.queries.documents.search import search
from jobs.search.reading import tokens_of_login, users_of
from jobs.settings.authorities import LOGIN_DOMAIN
from nodes.models import NodeEvent
from tests.support.api import assert_problem, client_of, make_user
from tests.support.tables import each_row

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
SEARCH = "/api/v1/search/?q=wombat"
USERS = """
users:
  alice: {groups: [editors], tokens: ["user:alice"]}
  bob: {groups: [staff]}
  carol@example.org: {groups: [staff]}
  mallory: {disabled: true}
groups:
  editors: {groups: [staff]}
"""
TOKENS = ("a", "b", "c")
SOME = st.lists(st.sampled_from(TOKENS), max_size=2).map(tuple)
LEVELS = st.builds(Level, SOME, SOME)
ACCESSES = st.builds(Access, LEVELS, st.lists(LEVELS, max_size=2).map(tuple), LEVELS)
# Limits that choose the strategy of a search. It reads first the matches, or first the accesses that the reader may
# see, which may be constants of the statement. If a word has more matches than expected, the search starts again with
# the other strategy.
RARE = {"_SHARE_OF_UNKNOWN": 1e9}
WAYS = (
    RARE,
    RARE | {"_FEW_MATCHES": 2},
    {"_SHARE_OF_UNKNOWN": -1},
    {"_SHARE_OF_UNKNOWN": -1, "_MOST_CONSTANTS": 0},
)
READERS = st.sets(st.sampled_from((*TOKENS, "d"))).map(frozenset)


class Index:
    """A search output, to which tests write as a flush does."""

    def __init__(self, connection):
        self._connection = connection
        row = OutputConnection.objects.create(name="search", connector="search")
        self._output = SearchOutput(id=row.pk, configuration=SearchConfiguration())

    def put(self, name, access=OPEN, text="a wombat"):
        url = f"http://a.example/{name}"
        content = Content(url, "", "", text, "text/html", "", access)
        entry = Entry(uuid.uuid5(uuid.NAMESPACE_URL, url).hex, url, content, "1:v", NOON)
        with self._connection.transaction(), self._connection.cursor(binary=True) as cursor:
            self._output.add_or_replace(cursor, [entry])

    def make_searchable(self):
        while index_waiting_texts(self._connection).texts:
            pass


@pytest.fixture
def index(connection):
    return Index(connection)


@pytest.fixture
def protected(index, tmp_path):
    """Return an index of four documents, and an authority that knows the users above."""
    file = tmp_path / "users.yaml"
    file.write_text(USERS)
    group = verbs.create_group(name="g", made_by="root")
    verbs.create(
        AuthorityConnection,
        name="users",
        kind="file",
        group=group.pk,
        configuration={"path": str(file)},
        made_by="root",
    )
    index.put("open")
    index.put("staff", Access(Level(("staff",))).scoped("g"))
    index.put("editors", Access(Level(("editors",)), parents=(Level(("staff",)),)).scoped("g"))
    index.put("not-for-editors", Access(Level(("staff",), ("editors",))).scoped("g"))
    index.make_searchable()
    return index


def found(*tokens, query="wombat"):
    return {hit.url.rpartition("/")[2] for hit in search(query, tokens=tokens, limit=100).hits}


def hits(answer):
    assert answer.status_code == 200, answer.content
    return {hit["url"].rpartition("/")[2] for hit in answer.json()["results"]}


# --- The query ---------------------------------------------------------------------------------------


_numbers = itertools.count()


@examples(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(accesses=st.lists(ACCESSES, min_size=1, max_size=8), readers=st.lists(READERS, min_size=1, max_size=4))
def test_a_user_finds_exactly_the_documents_that_its_tokens_may_see(index, accesses, readers):
    # Each example has its own words, which keep its documents apart from those of other examples.
    word = f"example{next(_numbers)}"
    for number, access in enumerate(accesses):
        index.put(f"{word}-{number}", access, text=f"a {word}")
    index.make_searchable()

    for tokens in readers:
        seen = {f"{word}-{number}" for number, access in enumerate(accesses) if access.admits(tokens)}
        for way in WAYS:
            with pytest.MonkeyPatch.context() as patch:
                for limit, value in way.items():
                    patch.setattr(searching, limit, value)
                assert found(*tokens, query=word) == seen, way


@pytest.mark.parametrize("share", [-1, 1e9])
def test_counts_and_pages_of_a_search_have_only_documents_of_the_reader(index, monkeypatch, share):
    monkeypatch.setattr(searching, "_SHARE_OF_UNKNOWN", share)
    for number in range(6):
        index.put(f"page{number}", Access(Level(("even" if number % 2 == 0 else "odd",))))
    index.put("open")
    index.make_searchable()

    first = search("wombat", tokens=("odd",), limit=3)
    second = search("wombat", tokens=("odd",), limit=3, after=first.next)

    assert (first.total, len(first.hits), len(second.hits), second.next) == (4, 3, 1, None)
    assert search("wombat", tokens=(), limit=3).total == 1


def test_visible_documents_are_found_even_after_many_invisible_matches(index, monkeypatch):
    monkeypatch.setattr(searching, "_SHARE_OF_UNKNOWN", 1e9)
    monkeypatch.setattr(searching, "_FEW_MATCHES", 5)
    for number in range(20):
        index.put(f"other{number}", Access(Level(("other",))))
    index.put("own", Access(Level(("own",))))
    index.make_searchable()

    page = search("wombat", tokens=("own",), limit=10)

    assert (page.total, page.has_more, [hit.url for hit in page.hits]) == (1, False, ["http://a.example/own"])


def test_a_changed_access_applies_as_soon_as_it_is_written(index):
    index.put("page", Access(Level(("a",))))
    index.make_searchable()
    assert (found("a"), found("b"), found()) == ({"page"}, set(), set())

    index.put("page", Access(Level(("b",))))
    index.make_searchable()
    assert (found("a"), found("b"), found()) == (set(), {"page"}, set())

    index.put("page")
    index.make_searchable()
    assert (found("a"), found("b"), found()) == ({"page"}, {"page"}, {"page"})


# --- Users -------------------------------------------------------------------------------------------


@each_row(
    "login, domain, users",
    [
        ("alice", "", {"": "alice"}),
        ("alice", "example.org", {"": "alice", "example.org": "alice"}),
        ("alice@example.org", "other", {"": "alice@example.org", "example.org": "alice"}),
        ("a@b@example.org", "", {"": "a@b@example.org", "example.org": "a@b"}),
        ("alice@", "other", {"": "alice@"}),
        ("@example.org", "other", {"": "@example.org"}),
    ],
)
def test_authorities_are_asked_about_a_login_by_domain(login, domain, users):
    assert users_of(login, domain=domain) == users


@each_row(
    "login, names",
    [
        ("alice", {"open", "staff", "editors"}),
        ("bob", {"open", "staff", "not-for-editors"}),
        ("carol@example.org", {"open", "staff", "not-for-editors"}),
        ("mallory", {"open"}),
        ("nobody", {"open"}),
    ],
)
def test_the_page_and_the_api_show_what_the_tokens_of_the_user_allow(protected, login, names):
    client = APIClient()
    client.force_login(make_user(VIEWER, name=login))

    assert hits(client.get(SEARCH)) == names
    page = client.get("/search/?q=wombat").content.decode()
    assert {name for name in ("open", "staff", "editors", "not-for-editors") if f"a.example/{name}<" in page} == names


def test_no_role_sees_more_documents_than_another(protected):
    for role in (VIEWER, OPERATOR, ADMINISTRATOR):
        assert hits(client_of(role).get(SEARCH)) == {"open"}


def test_an_authority_that_does_not_answer_hides_the_documents_of_its_group(protected, tmp_path):
    gone = {"path": str(tmp_path / "gone.yaml")}
    group = AuthorityConnection.objects.get(name="users").group_id
    verbs.create(AuthorityConnection, name="gone", kind="file", group=group, configuration=gone, made_by="root")

    assert found(*tokens_of_login("alice")) == {"open"}


def test_an_authority_with_a_domain_is_asked_only_about_users_of_the_domain(protected, tmp_path, settings):
    group = verbs.create_group(name="h", made_by="root")
    facts = {"configuration": {"path": str(tmp_path / "users.yaml")}, "made_by": "root"}
    verbs.create(AuthorityConnection, name="ad", kind="file", group=group.pk, domain="example.org", **facts)

    assert "h:editors" in tokens_of_login("alice@example.org")
    assert "h:editors" not in tokens_of_login("alice")
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, LOGIN_DOMAIN.path: "example.org"}
    assert "h:editors" in tokens_of_login("alice")


def test_no_authority_is_asked_while_all_documents_are_public(index, monkeypatch):
    monkeypatch.setattr("jobs.search.reading.tokens_of_users", None)
    index.put("open")

    assert tokens_of_login("alice") == frozenset()


# --- As another user ---------------------------------------------------------------------------------


def test_the_journal_records_that_an_administrator_searches_as_another_user(protected):
    client = client_of(ADMINISTRATOR)

    assert hits(client.get(f"{SEARCH}&as_user=bob")) == {"open", "staff", "not-for-editors"}
    page = client.get("/search/?q=wombat&as_user=alice").content.decode()

    assert "a.example/editors<" in page
    assert "the documents that alice may see" in page
    events = NodeEvent.objects.filter(message__contains="searched as").order_by("pk")
    assert [event.message for event in events] == [
        "a administrator searched as bob",
        "a administrator searched as alice",
    ]
    assert events[0].detail == {"by": "a administrator", "user": "bob", "query": "wombat"}


@each_row("role", [VIEWER, OPERATOR])
def test_only_administrators_search_as_another_user(protected, role):
    client = client_of(role)

    assert_problem(client.get(f"{SEARCH}&as_user=alice"), 403, "permission_denied")
    assert client.get("/search/?q=wombat&as_user=alice").status_code == 403
    assert "as_user" not in client.get("/search/?q=wombat").content.decode()
    assert not NodeEvent.objects.filter(message__contains="searched as").exists()


def test_a_search_as_a_user_with_an_impossible_name_is_refused(protected):
    client = client_of(ADMINISTRATOR)

    assert_problem(client.get(f"{SEARCH}&as_user=a%0Ab"), 400, "invalid", fields=["as_user"])
    assert "Write the login of a user" in client.get("/search/?q=wombat&as_user=a%0Ab").content.decode()


def test_pages_of_a_search_as_another_user_keep_the_user(protected):
    client = client_of(ADMINISTRATOR)

    answer = client.get(f"{SEARCH}&as_user=bob&limit=1").json()

    assert "as_user=bob" in answer["next"]
    assert answer["total"] == 3


def test_a_query_with_a_nul_is_searched_as_another_user(protected):
    page = client_of(ADMINISTRATOR).get("/search/?q=%00wombat&as_user=bob")

    assert "a.example/staff<" in page.content.decode()
    assert NodeEvent.objects.get(message__contains="searched as").detail["query"] == " wombat"
