"""Proves that a crawl whose clean-up would remove too much ends with 3, and continues after an approval."""

from tests.support.processes import ended, held_by, read_lines


def test_a_crawl_with_too_many_removals_exits_with_3_until_approved(machine, serve):
    output = machine.directory / "pages.jsonl"
    site = serve(pages=60, hosts=1, traps=0)
    machine.crawl(site.start_url, "--job", "site", output=output)
    assert held_by(output) == site.documents
    written = len(read_lines(output))

    # A pattern with a mistake: it excludes every page but the seed.
    second = machine.crawl("--job", "site", "--exclude", "[0-9]/.", output=output)

    assert (second.code, second.facts["reason"]) == (3, "held")
    assert not [line for line in read_lines(output, since=written) if line["action"] == "delete"]
    said = second.err.splitlines()[-1]
    assert "59 of 60 documents would be removed (98 %)" in said
    assert "The job's own rules and seeds exclude 59 of them." in said
    assert "crawlctl job site allow-removals" in said

    assert ended(machine.start("job", "site", "allow-removals")).code == 0
    third = ended(machine.start("crawl", "--resume", "--job", "site", "--json"))

    assert (third.code, third.facts["reason"]) == (0, "finished")
    assert held_by(output) == {site.start_url}
