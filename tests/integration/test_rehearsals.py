"""Proves that a rehearsal shows the effects of the next run under a changed job, and stores nothing."""

import json
import random

import pytest

from jobs.api.rehearsals import RehearsalSerializer
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Guard, StartMethod
from jobs.lifecycle.schedule import Window
from jobs.models import DefinitionVersion, Job, JobEvent, OutputConnection, QueueItem
from jobs.queries.rehearsals import documents, jobs
from jobs.rehearsals import kinds
from jobs.verbs import editing, rehearsing
from jobs.verbs.rehearsing import rehearse
from jobs.verbs.seeds import SeedWanted
from nodes.errors import Invalid, Unknown
from nodes.tasks.context import TaskContext
from tests.support.cluster import NOON
from tests.support.factories import make_policy
from tests.support.guarded_site import GuardedSite
from tests.support.scripted import url_of


@pytest.fixture
def site(connection, world):
    """Return a crawled site. Two of its pages link to further pages, and both link to one common page."""
    site = GuardedSite(connection, world, pages=4, guard_percent=None)
    world.put("page0", text="page0", links=["only here", "shared"])
    world.put("page1", text="page1", links=["shared"])
    for name in ("only here", "shared"):
        world.put(name, text=name)
    site.run()
    return site


def rehearsed(site, **changes):
    return rehearse(site.job_id, made_by="operator", now=site.cluster.clock.at, **changes)


def save_and_run(site, **changes):
    editing.change_job(site.job_id, **changes, made_by="operator", now=site.cluster.clock.at)
    site.run()


def known(site):
    return set(QueueItem.objects.filter(job=site.job_id).values_list("identifier", flat=True))


def excluding(*names):
    return {"specification": {"excludes": list(names)} if names else {}}


def losses(found):
    return {loss.output: loss.documents for loss in found.losses}


def test_documents_leave_because_a_rule_refuses_them_or_no_link_reaches_them(site):
    found = rehearsed(site, **excluding("page0"))

    assert (found.documents, found.staying, found.dropped) == (7, 5, 2)
    assert {why: (group.number, group.examples) for why, group in found.refused.items()} == {
        "the job excludes page0": (1, [url_of("page0")])
    }
    assert (found.unlinked.number, found.unlinked.examples) == (1, [url_of("only here")])
    assert losses(found) == {"search": 2}

    save_and_run(site, **excluding("page0"))
    assert site.held == {"root", "page1", "page2", "page3", "shared"}
    assert len(known(site)) == found.staying


def test_rejected_addresses_arrive_under_wider_rules(site):
    save_and_run(site, **excluding("page0", "page2"))

    found = rehearsed(site, **excluding("page2"))

    assert (found.dropped, found.arrivals.found.number, found.arrivals.likely) == (0, 1, 1)
    assert found.arrivals.found.examples == [url_of("page0")]
    assert (found.arrivals.sample, found.arrivals.is_whole) == (2, True)
    before = known(site)
    save_and_run(site, **excluding("page2"))
    # The links of a new page are known only after it was read.
    assert known(site) - before == {url_of("page0"), url_of("only here")}


@pytest.mark.parametrize("number", range(3))
def test_the_counts_of_any_site_equal_the_next_run(connection, world, number):
    chance = random.Random(number)
    names = [f"page{place}" for place in range(30)]
    site = GuardedSite(connection, world, pages=30, guard_percent=30, guard_host_percent=None, guard_documents=3)
    site.put_root(links=chance.sample(names, 5))
    for name in names:
        if chance.random() < 0.1:
            world.put(name, redirects_to=chance.choice(names))
        else:
            world.put(name, text=name, links=chance.sample(names, chance.randrange(4)))
    site.run()
    before, held = known(site), site.held
    changes = excluding(*chance.sample(names, 6))

    found = rehearsed(site, **changes)
    save_and_run(site, **changes)

    assert found.needs_approval == (site.job.guard == Guard.WAITING)
    if found.needs_approval:
        site.ask("allow-removals")
        site.halt()
    assert found.documents == len(before)
    assert known(site) <= before
    assert found.staying == len(known(site))
    assert losses(found).get("search", 0) == len(held - site.held)


@pytest.mark.parametrize("number", range(3))
def test_the_counts_of_any_site_whose_links_lose_sessions_equal_the_next_run(connection, world, number):
    chance = random.Random(number)
    pages = [f"page{place}" for place in range(12)]
    names = [*pages, *(f"{page}~{session}" for page in pages for session in (1, 2))]
    site = GuardedSite(connection, world, pages=12, guard_percent=None)
    links = {page: chance.sample(names, chance.randrange(4)) for page in pages}
    for name in names:
        # The page has the same text under each of its names.
        world.put(name, text=name, links=links[name.partition("~")[0]])
    site.put_root(links=chance.sample(names, 6))
    site.run()
    before, held = known(site), site.held

    found = rehearsed(site, specification={"separator": "~"})
    save_and_run(site, specification={"separator": "~"})

    assert found.dropped == len(before - known(site))
    assert found.arrivals.likely == found.arrivals.new_forms.number == len(known(site) - before)
    assert set(found.arrivals.new_forms.examples) == known(site) - before
    assert losses(found).get("search", 0) == len(held - site.held)


@pytest.mark.parametrize("change", [(2, 1), (1, 3), (None, 2), (2, None)])
def test_the_counts_of_any_site_under_other_hop_limits_equal_the_next_run(connection, world, change):
    before_it, after_it = ({"hop_limits": {} if most is None else {"link": most}} for most in change)
    chance = random.Random(repr(change))
    names = [f"page{place}" for place in range(40)]
    site = GuardedSite(connection, world, pages=40, guard_percent=None, **before_it)
    for name in names:
        if chance.random() < 0.2:
            world.put(name, redirects_to=chance.choice(names))
        else:
            world.put(name, text=name, links=chance.sample(names, chance.randrange(3)))
    site.put_root(links=chance.sample(names, 4))
    site.run()
    before, held = read_now(site), site.held

    found = rehearsed(site, **after_it)
    save_and_run(site, **after_it)

    after = read_now(site)
    assert found.documents == len(before)
    assert found.dropped == len(before - after)
    assert {*found.arrivals.within.examples} <= after - before
    if change == (1, 3):
        assert found.arrivals.within.number > 0
    if change in {(2, 1), (None, 2)}:
        assert found.beyond.number > 0
        assert after <= before
    assert losses(found).get("search", 0) == len(held - site.held)


def read_now(site):
    """Return the documents of the job within its hop limits. The job reads only these documents."""
    read = QueueItem.objects.filter(job=site.job_id).exclude(stage=Stage.HOPCOUNT_REMOVED)
    return set(read.values_list("identifier", flat=True))


def test_a_rehearsal_stores_nothing(site):
    def everything():
        job = Job.objects.values().get(pk=site.job_id)
        return job, DefinitionVersion.objects.count(), JobEvent.objects.count()

    before = everything()

    rehearsed(site, **excluding("page0"), name="another name", outputs=[OutputConnection.objects.get(name="search")])

    assert everything() == before


def test_a_rehearsal_refuses_what_a_save_refuses(site):
    with pytest.raises(Invalid) as refused:
        rehearsed(site, specification={"no such field": 1})
    with pytest.raises(Invalid) as saved:
        editing.change_job(site.job_id, specification={"no such field": 1}, made_by="", now=NOON)

    assert refused.value.problems == saved.value.problems
    with pytest.raises(Unknown):
        rehearse(10**9, made_by="", now=NOON)


def test_a_rehearsal_shows_that_removals_will_wait_for_approval(site):
    guarded = excluding("page0") | {"guard_percent": 20, "guard_host_percent": None, "guard_documents": 1}

    assert not rehearsed(site, **guarded | {"guard_percent": 40}).needs_approval
    assert rehearsed(site, **guarded).needs_approval
    save_and_run(site, **guarded)
    assert site.job.guard == Guard.WAITING


def test_documents_stay_in_an_output_in_which_another_job_keeps_them(site, world):
    other = world.make_job("other", seeds=["page0"], outputs=[site.search])
    mine, site.job_id = site.job_id, other.pk
    site.run()
    site.job_id = mine

    found = rehearsed(site, **excluding("page0", "page2"))

    # The other job has page0, and the pages to which it leads.
    assert (found.dropped, losses(found)) == (3, {"search": 1})


def test_all_documents_leave_an_output_that_is_removed_from_their_job(site):
    elsewhere = OutputConnection.objects.create(name="elsewhere", connector="null")

    assert losses(rehearsed(site, outputs=[elsewhere])) == {"search": 7}


def test_other_seeds_reach_other_documents(site):
    found = rehearsed(site, seeds=[SeedWanted((url_of("page1"),))])

    assert (found.staying, found.unlinked.number) == (2, 5)


def test_a_rehearsal_shows_the_load_of_hosts_before_and_after(site):
    seeds = [SeedWanted((url_of("root"),), make_policy(min_gap=2.0))]

    (host,) = rehearsed(site, **excluding("page0"), seeds=seeds).hosts

    assert (host.host, host.before, host.after, host.gap) == ("here", 7, 5, 2.0)
    assert (host.seconds_before, host.seconds_after) == (14.0, 10.0)


def test_the_next_starts_are_those_of_the_changed_schedule(site):
    nightly = Window(hours=(22,), time_zone="UTC")

    found = rehearsed(site, start_method=StartMethod.WINDOW_BEGIN, windows=[nightly])

    assert found.starts_before == []
    assert len(found.starts_after) == 5
    assert found.starts_after[0].endswith("22:00 UTC")


def test_a_task_finds_the_same_effects_if_a_rehearsal_takes_long(site, monkeypatch):
    change = excluding("page0")
    at_once = json.loads(json.dumps(RehearsalSerializer(rehearsed(site, **change)).data))
    monkeypatch.setattr(rehearsing, "_LONGEST", 0)
    reported = []

    task = rehearsed(site, **change)
    result = kinds.rehearse(TaskContext(task=task.pk, group="generic", report=reported.append), task.arguments)

    assert result == at_once
    assert reported[-1] == {"documents": 7}


def test_a_task_takes_seeds_and_outputs_of_the_change(site, monkeypatch):
    monkeypatch.setattr(rehearsing, "_LONGEST", 0)
    elsewhere = OutputConnection.objects.create(name="elsewhere", connector="null")

    task = rehearsed(site, seeds=[SeedWanted((url_of("page1"),))], outputs=[elsewhere])
    result = kinds.rehearse(TaskContext(task=task.pk, group="generic"), task.arguments)

    assert (result["staying"], result["losses"]) == (2, [{"output": "search", "documents": 7}])


def test_a_cancelled_task_ends_without_effects(site, monkeypatch):
    monkeypatch.setattr(rehearsing, "_LONGEST", 0)
    task = rehearsed(site)

    context = TaskContext(task=task.pk, group="generic", is_cancelled=lambda: True)

    assert "cancelled" in kinds.rehearse(context, task.arguments)


def test_the_total_number_of_addresses_is_estimated_from_a_full_sample():
    # Hashes are spread evenly: half of them are below this hash.
    assert documents.estimate(bytes([0x80]) + bytes(15)) == 2 * (documents.KEPT - 1)


def test_a_rehearsal_says_that_a_source_without_rules_is_not_compared(site, monkeypatch):
    monkeypatch.setattr(jobs, "Ruled", type(None))

    found = rehearsed(site)

    assert (found.is_judged, found.dropped, found.documents) == (False, 0, 7)
    assert "decides only when it reads a document" in found.notes[0]
