"""Proves that the history of real crawls agrees with the site's own log and with the output."""

from collections import Counter

from tests.support.processes import read_lines


def history_rows(machine, activity):
    """Return the history's rows of one activity, with identifier, result code and bytes."""
    return machine.database.rows(
        """
        SELECT past.entity, past.result_code, past.bytes, past.seconds, past.started_at, job.started_at AS run_began_at, now()
          FROM jobs_activity AS past JOIN jobs_job AS job ON job.id = past.job_id
         WHERE past.activity = %s ORDER BY past.id
        """,
        activity,
    )


def test_the_history_lists_each_request_and_each_line_of_the_output(machine, serve):
    site = serve(pages=60, hosts=2, traps=3)
    output = machine.directory / "pages.jsonl"

    machine.crawl(site.start_url, "--scope", "any", "--workers", 2, output=output)

    fetched = [row for row in history_rows(machine, "fetch") if not row.entity.endswith("/robots.txt")]
    assert Counter(row.entity for row in fetched) == Counter(request.url for request in site.requests())
    assert Counter(row.result_code for row in fetched) == Counter(str(request.status) for request in site.requests())
    for row in fetched:
        assert row.run_began_at <= row.started_at <= row.now
        assert 0 < row.seconds < 60
    assert {row.entity for row in history_rows(machine, "document ingest")} == {
        line["url"] for line in read_lines(output)
    }
    assert [row.result_code for row in history_rows(machine, "job end")] == ["finished"]
    assert len(history_rows(machine, "job start")) == 1


def test_a_removal_from_the_output_is_logged(machine, serve):
    site = serve(pages=60, hosts=1, traps=0)
    output = machine.directory / "pages.jsonl"
    machine.crawl(site.start_url, "--job", "site", output=output)
    written = len(read_lines(output))
    site.revise(change=4, gone=5)

    machine.crawl("--job", "site", output=output)

    lines = read_lines(output, since=written)
    for activity, action in (("document deletion", "delete"), ("document ingest", "add")):
        urls = Counter(line["url"] for line in lines if line["action"] == action)
        assert urls
        assert Counter(row.entity for row in history_rows(machine, activity)[-urls.total() :]) == urls
