"""Proves that redirects of ended and removed seeds leave the database, and that all other redirects stay."""

import threading

import psycopg
import pytest
from django.db import connection, transaction

from jobs.connectors.repository import shared
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.web.urls import bin_of
from jobs.loops.worker.sharing import _note_redirect
from jobs.models import SeedRedirect, ThrottlePolicy
from jobs.queue.redirects import forget_redirects
from jobs.verbs.editing import change_job
from jobs.verbs.seeds import SeedWanted
from tests.integration.test_outputs import waits_for_a_lock
from tests.support.api import NOON
from tests.support.factories import make_job
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db


def note(job, source, target):
    SeedRedirect.objects.create(
        job=job,
        hash=hash_of(source),
        source=source,
        target_hash=hash_of(target),
        target=target,
        target_host=bin_of(target),
        is_followed=True,
    )


def test_deleted_redirects_are_no_longer_followed_and_others_stay():
    job, other = make_job(), make_job()
    for of in (job, other):
        for name in "abc":
            note(of, f"http://{name}.example/", f"http://www.{name}.example/")

    forget_redirects(connection.connection, job=job.pk, sources=["http://a.example/", "http://c.example/"])

    left = SeedRedirect.objects.order_by("job", "source").values_list("job", "source")
    assert list(left) == [
        (job.pk, "http://b.example/"),
        *((other.pk, f"http://{name}.example/") for name in "abc"),
    ]


def test_the_redirects_of_a_removed_seed_are_deleted_with_it():
    job, other = make_job(urls=("http://a.example", "http://b.example/")), make_job(urls=("http://a.example/",))
    note(job, "http://a.example/", "http://www.a.example/")
    note(job, "http://www.a.example/", "http://www.a.example/start")
    note(job, "http://b.example/", "http://www.b.example/")
    note(other, "http://a.example/", "http://www.a.example/")

    change_job(job.pk, seeds=[SeedWanted(("http://b.example/", "http://c.example/"))], made_by="root", now=NOON)

    left = SeedRedirect.objects.order_by("job", "source").values_list("job", "source")
    assert list(left) == [(job.pk, "http://b.example/"), (other.pk, "http://a.example/")]


def test_a_changed_policy_of_a_seed_keeps_its_redirect():
    job = make_job(urls=("http://a.example",))
    note(job, "http://a.example/", "http://www.a.example/")

    policy = ThrottlePolicy.objects.create(name="gently")
    change_job(job.pk, seeds=[SeedWanted(("http://a.example",), policy)], made_by="root", now=NOON)

    assert SeedRedirect.objects.count() == 1


def test_a_change_of_many_seeds_reads_redirects_once(django_assert_max_num_queries):
    many = [f"http://{number}.example/" for number in range(2_000)]
    job = make_job(urls=many)
    for url in many:
        note(job, url, url.replace("//", "//www."))

    with django_assert_max_num_queries(40):
        change_job(job.pk, seeds=[SeedWanted((many[0],))], made_by="root", now=NOON)

    assert [row.source for row in SeedRedirect.objects.all()] == [many[0]]


def note_by_a_worker(job, source, *, version):
    target = source.replace("//", "//new.")
    redirect = shared.SeedRedirect(source, target, bin_of(target), is_followed=True)
    _note_redirect(connection.connection, job=job.pk, version=version, redirect=redirect)


def test_a_worker_that_reads_a_removed_seed_does_not_store_its_redirect_again():
    job = make_job(urls=("http://a.example", "http://b.example"))
    note(job, "http://b.example/", "http://www.b.example/")
    note_by_a_worker(job, "http://a.example/", version=job.specification_version)
    assert SeedRedirect.objects.count() == 2

    change_job(job.pk, seeds=[SeedWanted(("http://b.example",))], made_by="root", now=NOON)
    for source in ("http://a.example/", "http://new.a.example/", "http://b.example/", "http://www.b.example/"):
        note_by_a_worker(job, source, version=job.specification_version)

    assert sorted(SeedRedirect.objects.values_list("source", "target")) == [
        ("http://b.example/", "http://new.b.example/"),
    ]


@pytest.mark.django_db(transaction=True)
def test_a_worker_waits_for_a_change_that_removes_its_seed(dsn):
    job = make_job(urls=("http://a.example", "http://b.example"))
    redirect = shared.SeedRedirect("http://a.example/", "http://new.example/", "new.example", is_followed=True)

    def note_meanwhile():
        with psycopg.connect(dsn, autocommit=True) as other:
            _note_redirect(other, job=job.pk, version=job.specification_version, redirect=redirect)

    waiting = threading.Thread(target=note_meanwhile)
    with transaction.atomic():
        change_job(job.pk, seeds=[SeedWanted(("http://b.example",))], made_by="root", now=NOON)
        waiting.start()
        wait_until(lambda: waits_for_a_lock(dsn))
    waiting.join(10)

    assert not SeedRedirect.objects.exists()
