"""Proves that a bounded, fair sample is kept of the addresses that the rules of a job refuse."""

import uuid

import pytest

from jobs.connectors.repository.base import Ending, Outcome, hash_of
from jobs.models import Job, RejectedAddress
from jobs.queue import rejected
from jobs.queue.rejected import RejectedSamples
from tests.support.factories import facts_of, make_job
from tests.support.guarded_site import GuardedSite
from tests.support.scripted import url_of

FEW = 20


@pytest.fixture
def small_sample(monkeypatch):
    """Let a sample have a few addresses only."""
    monkeypatch.setattr(rejected, "_ADD", rejected._ADD.replace(f"OFFSET {rejected.KEPT - 1}", f"OFFSET {FEW - 1}"))


def outcome_of(urls, *, page="http://a.example/"):
    document = type("Document", (), {"hash": hash_of(page)})()
    return Outcome(document, Ending.INDEXED, "200", rejected=tuple(urls))


def add(connection, sample, ended):
    sample.collect(ended)
    sample.write(connection, at_once=True)


def kept_addresses(job):
    return list(RejectedAddress.objects.filter(job=job).order_by("hash").values_list("identifier", flat=True))


def lowest(urls):
    return sorted(urls, key=hash_of)[:FEW]


URLS = [f"http://b.example/{number}" for number in range(200)]


def test_a_rejected_address_is_kept_once_with_the_page_that_led_to_it(connection):
    job = make_job()
    sample = RejectedSamples()

    add(connection, sample, [(facts_of(job), outcome_of(URLS[:2], page="http://a.example/first"))])
    add(connection, sample, [(facts_of(job), outcome_of(URLS[1:3], page="http://a.example/second"))])

    assert sorted(kept_addresses(job)) == URLS[:3]
    sources = dict(RejectedAddress.objects.values_list("identifier", "found_on"))
    assert sources[URLS[1]] == uuid.UUID(hash_of("http://a.example/first"))


def test_a_full_sample_does_not_depend_on_the_order_of_writes(connection, small_sample):
    one, other = make_job(), make_job()
    for job, urls in ((one, URLS), (other, URLS[::-1])):
        samples = [RejectedSamples(), RejectedSamples()]
        for place in range(0, len(urls), 10):
            add(connection, samples[place % 20 // 10], [(facts_of(job), outcome_of(urls[place : place + 10]))])

    assert kept_addresses(one)[:FEW] == kept_addresses(other)[:FEW] == lowest(URLS)
    assert len(kept_addresses(one)) <= FEW + 10


def test_a_worker_writes_no_address_that_a_full_sample_would_drop(connection, small_sample):
    job, sample = make_job(), RejectedSamples()
    add(connection, sample, [(facts_of(job), outcome_of(lowest(URLS)))])
    add(connection, sample, [(facts_of(job), outcome_of(lowest(URLS)))])
    sample.collect([(facts_of(job), outcome_of(sorted(URLS, key=hash_of)[FEW:]))])

    assert not sample.has_addresses


def test_a_busy_worker_writes_many_addresses_together(connection, monkeypatch):
    monkeypatch.setattr(rejected, "_TOGETHER", 4)
    job, sample = make_job(), RejectedSamples()

    sample.collect([(facts_of(job), outcome_of(URLS[:3]))])
    sample.write(connection, at_once=False)
    assert kept_addresses(job) == []

    sample.collect([(facts_of(job), outcome_of(URLS[3:4]))])
    sample.write(connection, at_once=False)
    assert sorted(kept_addresses(job)) == sorted(URLS[:4])


def test_addresses_of_a_deleted_job_are_deleted_and_not_written_again(connection):
    job, sample = make_job(), RejectedSamples()
    facts = facts_of(job)
    add(connection, sample, [(facts, outcome_of(URLS[:1]))])

    job.delete()
    add(connection, sample, [(facts, outcome_of(URLS[1:2]))])

    assert not Job.objects.exists()
    assert not RejectedAddress.objects.exists()


def test_a_crawl_keeps_the_addresses_that_its_rules_refuse(connection, world):
    site = GuardedSite(connection, world, pages=3, specification={"excludes": ["page1"]})

    site.run()

    assert site.held == {"root", "page0", "page2"}
    assert kept_addresses(site.job_id) == [url_of("page1")]
