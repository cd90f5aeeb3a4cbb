"""Proves that a child gets the carry-down values of all its parents, and is read again whenever these values change."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.connectors.repository.base import Ending
from jobs.lifecycle.document import Stage
from jobs.models import CarryDown, QueueItem
from jobs.queue.flushing.flush import flush
from tests.integration.test_hop_limits import Crawl, assert_counts_are_exact, begin_without_rows, name_of
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_reference, make_result

NOT_READ = {"references": None}


class Family(Crawl):
    """A job whose documents carry colours down to their links."""

    def read(self, *claims, colours=None, **outcome):
        """Flush these documents together. Each document passes the colours in `colours` to the named children."""
        results = [
            make_result(
                claimed,
                self.facts,
                lanes=[self.lane],
                **{"names": [reference(name, *some) for name, some in (colours or {}).items()]} | outcome,
            )
            for claimed in claims
        ]
        return flush(self.connection, worker=self.worker.id, results=results, outputs=self.outputs, now=NOON)

    def again(self, *names):
        """Make these documents due again, and claim them."""
        QueueItem.objects.filter(hash__in=map(hash_of, names)).update(stage=Stage.PENDING, seq=1)
        return self.claim()


def reference(name, *colours):
    return make_reference(name, carry={"colour": tuple(sorted(colours))} if colours else None)


def colours_of(claimed):
    return (claimed.document.carried or {}).get("colour", ())


@pytest.fixture
def family(connection):
    return Family(connection, {})


@pytest.fixture
def child(family):
    """Let two parents link to a child, and let the child be read with the values of both parents."""
    family.begin("mother", "father")
    claims = family.claim()
    family.read(claims["mother"], colours={"child": ["red", "green"]})
    family.read(claims["father"], colours={"child": ["red", "blue"]})
    family.read(family.claim()["child"])
    assert family.stage("child") == Stage.DONE


def test_a_child_gets_the_values_of_all_parents_sorted_without_duplicates(family):
    family.begin("mother", "father")
    claims = family.claim()
    family.read(claims["mother"], colours={"child": ["red", "green"]})
    family.read(claims["father"], colours={"child": ["red", "blue"]})

    assert family.claim()["child"].document.carried == {"colour": ("blue", "green", "red")}


def test_a_job_without_carry_down_data_stores_none_and_is_not_marked(family):
    family.begin("mother")

    family.read(family.claim()["mother"], colours={"child": []})

    family.job.refresh_from_db()
    assert not family.job.carries
    assert not CarryDown.objects.exists()
    assert family.claim()["child"].document.carried is None


@pytest.mark.parametrize(
    ("passed", "has"),
    [
        ({"child": ["red", "yellow"]}, ("blue", "red", "yellow")),
        ({"child": ["red"]}, ("blue", "red")),
        ({"child": []}, ("blue", "red")),
        ({}, ("blue", "red")),
    ],
    ids=["another value", "a value less", "nothing", "not named any more"],
)
@pytest.mark.usefixtures("child")
def test_a_child_with_changed_carried_values_is_read_again(family, passed, has):
    family.read(family.again("mother")["mother"], colours=passed)

    assert family.stage("child") == Stage.PENDING
    assert colours_of(family.claim()["child"]) == has


@pytest.mark.usefixtures("child")
def test_a_child_with_unchanged_carried_values_is_not_read_again(family):
    """The father still passes the value that the mother no longer passes."""
    family.read(family.again("mother")["mother"], colours={"child": ["green"]})

    assert family.stage("child") == Stage.DONE


@pytest.mark.usefixtures("child")
def test_a_child_is_read_once_more_if_its_data_changes_while_it_is_read(family):
    claims = family.again("mother", "child")
    family.read(claims["mother"], colours={"child": ["yellow"]})

    family.read(claims["child"])

    assert family.stage("child") == Stage.PENDING
    assert colours_of(family.claim()["child"]) == ("blue", "red", "yellow")


@pytest.mark.usefixtures("child")
def test_a_child_that_ends_in_the_same_flush_is_read_again(family):
    claims = family.again("mother", "child")

    family.read(claims["child"], claims["mother"], colours={})

    assert family.stage("child") == Stage.PENDING


@pytest.mark.parametrize("code", ["304", "500"])
@pytest.mark.usefixtures("child")
def test_a_parent_that_was_not_reread_still_passes_its_data(family, code):
    ending = Ending.UNCHANGED if code == "304" else Ending.FAILED

    family.read(family.again("mother")["mother"], ending=ending, code=code, **NOT_READ)

    assert family.stage("child") == Stage.DONE
    assert colours_of(family.again("child")["child"]) == ("blue", "green", "red")


@pytest.mark.usefixtures("child")
def test_a_removed_parent_passes_no_data(family):
    family.read(family.again("mother")["mother"], ending=Ending.FAILED, code="404", references=[], removes=True)

    assert family.stage("child") == Stage.PENDING
    assert colours_of(family.claim()["child"]) == ("blue", "red")


@pytest.mark.usefixtures("child")
def test_children_of_a_cleaned_parent_are_read_again_in_the_same_run(family):
    family.begin("father")
    family.read(family.claim()["father"], colours={"child": ["red", "blue"]})
    family.read(family.claim()["child"])
    removals = family.claim_removals()
    assert [name_of(claimed) for claimed in removals] == ["mother"]

    dropped = family.drop(removals)

    assert (dropped.dropped, dropped.lanes) == (1, {family.lane.pk})
    assert family.stage("child") == Stage.PENDING
    assert CarryDown.objects.count() == 1
    assert_counts_are_exact(family.connection)


@pytest.mark.usefixtures("child")
def test_a_child_that_the_run_has_not_named_does_not_become_due(family):
    family.begin("mother")

    family.read(family.claim()["mother"])

    assert family.at(Stage.PENDING) == set()
    assert {name_of(claimed) for claimed in family.claim_removals()} == {"father", "child"}


@pytest.mark.usefixtures("child")
def test_a_document_that_is_linked_during_its_clean_up_is_kept_and_read(family):
    family.begin("mother")
    mother = family.claim()["mother"]
    removals = family.claim_removals()
    family.read(mother, colours={"child": ["red"]})

    family.drop(removals)

    assert family.stage("child") == Stage.PENDING
    assert not QueueItem.objects.filter(hash=hash_of("father")).exists()


def test_a_child_is_reread_when_its_last_parent_with_a_value_loses_it(family, connection, other_connection, rival):
    family.begin("mother", "father")
    claims = family.claim()
    family.read(claims["mother"], colours={"child": ["red"]})
    family.read(claims["father"], colours={"child": ["red"]})
    family.read(family.claim()["child"])
    claims = family.again("mother", "father")
    mother, father = (make_result(claims[name], family.facts, lanes=[family.lane]) for name in ("mother", "father"))

    with connection.transaction():
        flush(connection, worker=family.worker.id, results=[mother], now=NOON)
        rival.start_and_wait(flush, other_connection, worker=family.worker.id, results=[father], now=NOON)
    rival.result()

    assert family.stage("child") == Stage.PENDING
    assert family.claim()["child"].document.carried is None


# --- Property ------------------------------------------------------------------------------------

PARENTS, CHILDREN, COLOURS = ("p", "q", "r"), ("x", "y"), ("red", "green", "blue")
PASSED = st.dictionaries(st.sampled_from(CHILDREN), st.lists(st.sampled_from(COLOURS), max_size=2), max_size=2)
STEPS = st.lists(
    st.tuples(st.lists(st.sampled_from(PARENTS + CHILDREN), min_size=1, max_size=3, unique=True), PASSED), max_size=12
)


@given(steps=STEPS)
@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_in_the_end_every_child_was_read_with_the_data_of_its_parents(connection, steps):
    family = begin_without_rows(connection, {}, kind=Family)
    passed, read_with = {}, {}
    family.begin(*PARENTS, *CHILDREN)
    claims = family.claim()
    for names, colours in steps:
        family.read(*(claims.pop(name) for name in names if name in claims), colours=colours)
        passed.update(dict.fromkeys(names, colours))
        claims |= family.again(*names)
        read_with |= {name: colours_of(claimed) for name, claimed in claims.items()}

    # Each document that is still due or in progress is read, and passes its present values.
    while claims := claims or family.claim():
        for name, claimed in claims.items():
            read_with[name] = colours_of(claimed)
            family.read(claimed, colours=passed.get(name))
        claims = {}

    expected = {
        child: tuple(sorted({colour for given in passed.values() for colour in given.get(child, ())}))
        for child in CHILDREN
    }
    assert {child: read_with[child] for child in CHILDREN} == expected
