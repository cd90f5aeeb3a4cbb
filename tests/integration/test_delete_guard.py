"""Proves that a run whose clean-up would remove too many documents keeps all of them and waits for approval."""

import pytest

from crawlctl.access.roles import OPERATOR
from jobs.attention.sources import read_attention
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Guard, RunEnd
from jobs.models import Job, JobEvent, QueueItem, RemovalQuestion
from jobs.state.transitions import TransitionRefused
from jobs.verbs import editing
from tests.support.api import client_of
from tests.support.guarded_site import GuardedSite


@pytest.fixture
def site(connection, world):
    site = GuardedSite(connection, world)
    site.run()
    assert site.held == site.everything
    return site


def test_a_lost_root_removes_nothing_below_it(site):
    site.world.remove("root")

    job = site.run()

    assert (job.guard, job.run_end, job.status) == (Guard.WAITING, RunEnd.HELD, "Waiting for approval")
    assert site.held == set(site.pages)
    assert "30 of 30 documents would be removed (100 %). scripted://here/root cannot be read any more" in job.reason


def test_a_root_that_suddenly_has_no_links_removes_nothing(site):
    site.put_root(text="Sorry, we are busy.", links=[])

    job = site.run()

    assert job.guard == Guard.WAITING
    assert site.held == site.everything
    assert "root has no links" in job.reason


def test_a_root_that_redirects_to_a_login_page_removes_nothing_below_it(site):
    site.world.put("login", text="Please log in.")
    site.world.put("root", redirects_to="login")

    job = site.run()

    assert job.guard == Guard.WAITING
    assert site.held == {*site.pages, "login"}
    assert "root redirects elsewhere, and had named 30 of them" in job.reason


def test_a_listing_that_is_cut_off_removes_nothing(site):
    site.put_root(links=site.pages[:20])
    site.world.put("page0", links=site.pages[20:25])
    # By default, the guard asks only about 20 documents or more. This job must ask about fewer documents, too.
    editing.change_job(site.job_id, guard_documents=3, made_by="operator", now=site.cluster.clock.at)

    job = site.run()

    assert job.guard == Guard.WAITING
    assert site.held == site.everything
    question = RemovalQuestion.objects.get(job=job)
    assert (question.leaving, question.staying) == (5, 26)
    assert question.hosts == [{"host": "here", "leaving": 5, "staying": 26}]
    assert [(parent["identifier"], parent["children"]) for parent in question.parents] == [("scripted://here/root", 5)]
    assert sorted(question.examples) == [f"scripted://here/page{number}" for number in range(25, 30)]


def test_new_rules_that_refuse_waiting_pages_remove_nothing(site):
    """A seed that is removed while the job runs takes its host out of the rules."""
    site.ask("start")
    for _ in range(60):
        if QueueItem.objects.filter(run_no=2, stage=Stage.PENDING).count() == len(site.pages):
            break
        site.cluster.work()
    Job.objects.update(specification={"excludes": site.pages}, specification_version=2)

    job = site.halt()

    assert QueueItem.objects.filter(result_code="OUT_OF_SCOPE", run_no=1).count() == len(site.pages)
    assert (job.guard, site.held) == (Guard.WAITING, site.everything)


def test_fewer_pages_than_the_threshold_are_removed_without_approval(site):
    site.put_root(links=site.pages[:10])

    job = site.run()

    assert (job.guard, job.run_end) == (Guard.NO, RunEnd.FINISHED)
    assert site.held == {"root", *site.pages[:10]}
    assert not RemovalQuestion.objects.exists()


def test_a_lost_seed_needs_approval_even_if_it_named_few_documents(connection, world):
    site = GuardedSite(connection, world, pages=3)
    site.run()
    world.remove("root")

    assert site.run().guard == Guard.WAITING
    assert site.held == set(site.pages)


def test_the_guard_asks_if_a_host_loses_most_of_its_documents(connection, world):
    """The host loses nearly all of its documents, which are few among the documents of the job."""
    site = GuardedSite(connection, world, guard_percent=50, guard_documents=3)
    small = [f"there/page{number}" for number in range(6)]
    for page in small:
        world.put(page)
    site.put_root(links=[*site.pages, *small])
    site.run()
    site.put_root(links=[*site.pages, small[0]])

    job = site.run()

    assert job.guard == Guard.WAITING
    assert "5 of 37 documents would be removed (14 %). All are on there, which has 6." in job.reason
    assert RemovalQuestion.objects.get(job=job).hosts == [{"host": "there", "leaving": 5, "staying": 1}]


def test_documents_of_all_seeds_of_a_host_count_as_staying(connection, world):
    site = GuardedSite(connection, world, pages=6, guard_percent=90, guard_documents=3, seeds=("root", "other"))
    others = [f"other{number}" for number in range(10)]
    for page in others:
        world.put(page)
    world.put("other", links=others)
    site.run()
    site.put_root(links=site.pages[:1])

    assert site.run().guard == Guard.NO


SMALL = 9


def login_page_in_place(world, token=1):
    world.put("forgotten", text="Send a new password.")
    world.put("root", text=f"Please log in. {token}", links=["forgotten", f"token{token}"])
    world.put(f"token{token}", text=None)


def login_page_elsewhere(world, token=1):
    world.put(f"login{token}", text="Please log in.")
    world.put("root", redirects_to=f"login{token}")


def empty_root(world, token=1):
    world.put("root", text=f"We are back soon. {token}", links=[])


ROOTS_WITHOUT_LINKS = [login_page_in_place, login_page_elsewhere, empty_root]


@pytest.mark.parametrize("lose_root", ROOTS_WITHOUT_LINKS)
def test_the_guard_asks_about_a_root_without_links_even_on_a_small_site(connection, world, lose_root):
    site = GuardedSite(connection, world, pages=SMALL)
    site.run()
    lose_root(world)

    job = site.run()

    assert job.guard == Guard.WAITING
    assert set(site.pages) <= site.held
    assert "root" in RemovalQuestion.objects.get(job=job).cause


@pytest.mark.parametrize("lose_root", ROOTS_WITHOUT_LINKS)
def test_the_guard_asks_about_a_root_without_links_after_each_change(connection, world, lose_root):
    site = GuardedSite(connection, world, pages=SMALL)
    site.run()
    for token in (1, 2, 3):
        lose_root(world, token)
        assert site.run().guard == Guard.WAITING, token

    site.put_root()

    assert site.run().guard == Guard.NO
    assert site.everything <= site.held


def test_the_guard_asks_nothing_about_a_seed_that_loses_its_only_link(connection, world):
    site = GuardedSite(connection, world, pages=SMALL, seeds=("root", "note"))
    world.put("note", links=["child"])
    world.put("child")
    site.run()
    world.put("note", links=[])

    job = site.run()

    assert (job.guard, job.run_end) == (Guard.NO, RunEnd.FINISHED)
    assert site.held == {*site.everything, "note"}


def test_the_request_for_approval_names_the_root_that_led_to_all_pages(connection, world):
    """
    Each listing links to ten pages, and the root to three listings only, but all pages were reached through the root.
    """
    site = GuardedSite(connection, world, pages=0)
    put_tree(world)
    site.run()
    world.remove("root")

    job = site.run()

    assert job.guard == Guard.WAITING
    assert job.reason.endswith("and its links had led to 33 of them.")
    (root,) = RemovalQuestion.objects.get(job=job).parents
    assert (root["identifier"], root["children"], root["reached"]) == ("scripted://here/root", 3, 33)


def test_links_are_followed_through_pages_that_no_output_holds(connection, world):
    site = GuardedSite(connection, world, pages=0)
    put_tree(world, listing={"text": None})
    site.run()
    world.remove("root")

    assert site.run().reason.endswith("its links had led to 30 of them.")


def put_tree(world, **facts):
    """Let the root name three listings with ten pages each."""
    listing = facts.get("listing", {})
    world.put("root", links=["list0", "list1", "list2"])
    for number in range(3):
        pages = [f"leaf{number}x{page}" for page in range(10)]
        world.put(f"list{number}", links=pages, **listing)
        for page in pages:
            world.put(page)


def test_the_request_for_approval_names_hop_limits_that_exclude_most(site):
    editing.change_job(site.job_id, hop_limits={"link": 0}, made_by="operator", now=site.cluster.clock.at)

    job = site.run()

    assert job.guard == Guard.WAITING
    assert "30 of 31 documents would be removed (97 %). The hop limits of the job exclude 30 of them." in job.reason
    assert site.held == site.everything


def test_the_next_good_run_withdraws_the_request_for_approval(site):
    site.world.remove("root")
    site.run()
    site.put_root()

    job = site.run()

    assert (job.guard, job.run_end, job.reason) == (Guard.NO, RunEnd.FINISHED, "")
    assert site.held == site.everything


def test_the_guard_asks_again_after_the_next_bad_run(site):
    site.world.remove("root")
    site.run()

    job = site.run()

    assert job.guard == Guard.WAITING
    assert RemovalQuestion.objects.get(job=job).run_no == job.run_no == 3
    assert site.held == set(site.pages)


def test_an_approval_by_an_operator_continues_the_clean_up(site):
    site.world.remove("root")
    site.run()

    site.ask("allow-removals")
    job = site.halt()

    assert (job.guard, job.run_end) == (Guard.NO, RunEnd.FINISHED)
    assert site.held == set()
    kinds = JobEvent.objects.filter(job=job).values_list("kind", flat=True)
    assert {"hold_removals", "allow_removals", "finish"} <= set(kinds)


def test_a_refusal_by_an_operator_keeps_all_documents(site):
    site.world.remove("root")
    site.run()

    change = site.ask("refuse-removals")

    assert (change.job.guard, change.job.status) == (Guard.NO, "Not running")
    assert site.held == set(site.pages)
    with pytest.raises(TransitionRefused):
        site.ask("allow-removals")


def test_a_guard_that_is_switched_off_never_asks(connection, world):
    site = GuardedSite(connection, world, guard_percent=None)
    site.run()
    world.remove("root")

    assert site.run().run_end == RunEnd.FINISHED
    assert site.held == set()


@pytest.mark.parametrize("steps", range(8))
def test_approved_removals_continue_if_workers_and_managers_die(site, steps):
    site.world.remove("root")
    site.run()
    site.ask("allow-removals")
    cluster = site.cluster
    for step in range(steps):
        cluster.managers[0].work()
        cluster.managers[1].work()
        if step % 2:
            cluster.workers[0].take()

    cluster.fail_worker(cluster.workers[0])
    cluster.fail_manager(cluster.main)
    job = site.halt()

    assert (job.guard, job.run_end) == (Guard.NO, RunEnd.FINISHED)
    assert site.held == set()


def test_operators_answer_the_guard_by_the_api_and_on_the_page(site):
    client = client_of(OPERATOR)
    site.put_root(links=site.pages[:2])
    site.run()

    shown = client.get(f"/api/v1/jobs/{site.job_id}/removals/").json()["question"]
    page = client.get(f"/jobs/{site.job_id}/removals/").content.decode()
    job_page = client.get(f"/jobs/{site.job_id}/").content.decode()

    assert (shown["leaving"], shown["staying"], len(shown["examples"])) == (28, 3, 20)
    assert shown["hosts"] == [{"host": "here", "leaving": 28, "staying": 3}]
    assert shown["parents"][0] == {
        "identifier": "scripted://here/root",
        "state": "changed",
        "code": "OK_UNCHANGED",
        "children": 28,
        "reached": 28,
    }
    assert "scripted://here/root no longer names them, and had named 28 of them." in page
    assert all(example in page for example in shown["examples"])
    # Every table has a row with a key, because the style sheet hides all other tables.
    assert all("data-key=" in table for table in page.split("<table")[1:])
    assert f"/jobs/{site.job_id}/removals/" in job_page
    assert 'value="allow-removals"' not in job_page

    answer = client.post(f"/api/v1/jobs/{site.job_id}/refuse-removals/")

    assert (answer.status_code, answer.json()["guard"]) == (200, "no")
    assert client.post(f"/api/v1/jobs/{site.job_id}/allow-removals/").status_code == 409
    assert client.get(f"/api/v1/jobs/{site.job_id}/removals/").json()["question"] is None


def test_a_request_for_approval_needs_attention_until_it_is_answered(site):
    site.world.remove("root")
    site.run()

    (line,) = [line for line in read_attention(now=site.cluster.clock.at) if line.kind == "removals_wait"]

    assert (line.subject, line.link) == ("site", f"/jobs/{site.job_id}/removals/")
    assert "30 of 30 documents would be removed" in line.sentence
    site.ask("refuse-removals")
    assert not [line for line in read_attention(now=site.cluster.clock.at) if line.kind == "removals_wait"]
