"""Proves that a crawl whose clean-up would remove too many documents ends with 3, and continues after an approval."""

import pytest

from jobs.models import Job
from jobs.verbs import editing
from nodes.database.clock import read_clock
from tests.support.processes import ended, held_by, read_lines

# A pattern with a mistake: it excludes every page but the seed.
WRONG = "[0-9]/."


def test_a_crawl_with_too_many_removals_ends_with_3_until_an_approval(machine, serve):
    output = machine.directory / "pages.jsonl"
    site = serve(pages=60, hosts=1, traps=0)
    machine.crawl(site.start_url, "--job", "site", output=output)
    assert held_by(output) == site.documents
    written = len(read_lines(output))

    second = machine.crawl("--job", "site", "--exclude", WRONG, output=output)

    assert (second.code, second.facts["reason"]) == (3, "held")
    assert not [line for line in read_lines(output, since=written) if line["action"] == "delete"]
    message = second.err.splitlines()[-1]
    assert "59 of 60 documents would be removed (98 %)" in message
    assert "The job's own rules and seeds exclude 59 of them." in message
    assert "crawlctl job site allow-removals" in message

    assert ended(machine.start("job", "site", "allow-removals")).code == 0
    third = ended(machine.start("crawl", "--resume", "--job", "site", "--json"))

    assert (third.code, third.facts["reason"]) == (0, "finished")
    assert held_by(output) == {site.start_url}


@pytest.mark.parametrize("guard", [5, None], ids=["with the guard", "without it"])
def test_a_wrong_exclude_pattern_that_is_removed_again_loses_nothing(machine, serve, guard):
    output = machine.directory / "pages.jsonl"
    site = serve(pages=60, hosts=1, traps=0)
    machine.crawl(site.start_url, "--job", "site", output=output)
    written = len(read_lines(output))
    change_job(guard_percent=guard)
    wrong = machine.crawl("--job", "site", "--exclude", WRONG, output=output)
    assert (wrong.code, held_by(output)) == ((3, site.documents) if guard else (0, {site.start_url}))

    change_job(specification={**Job.objects.get().specification, "exclude": []})
    again = machine.crawl("--job", "site", output=output)

    assert (again.code, again.facts["reason"]) == (0, "finished")
    assert held_by(output) == site.documents
    removed = [line for line in read_lines(output, since=written) if line["action"] == "delete"]
    assert len(removed) == (0 if guard else 59)


def change_job(**options):
    editing.change_job(Job.objects.get().pk, made_by="operator", now=read_clock(), **options)
