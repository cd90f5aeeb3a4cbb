"""
Proves that `manage.py crawl` refuses impossible jobs with a reason, hides passwords, and ends cleanly if interrupted
early.
"""

import signal

import psutil

from tests.support.processes import ended, wait_for

URL = "http://127.0.0.1:9/"
REFUSED = {
    "no name": ([URL, "--job", ""], "name of a job"),
    "a blank name": ([URL, "--job", "  "], "name of a job"),
    "a long name": ([URL, "--job", "a" * 201], "1 to 200"),
    "a name in lines": ([URL, "--job", "a\nb"], "printable"),
    "a name that is not text": ([URL, "--job", "\udcff"], "printable"),
    "a long user agent": ([URL, "--user-agent", "a" * 2000], "longer than 1000"),
    "a huge number": ([URL, "--max-documents", str(2**53 + 1)], f"from 1 to {2**53}."),
}


def test_an_impossible_job_is_refused_with_a_reason(machine):
    refused = {name: machine.crawl(*arguments) for name, (arguments, _) in REFUSED.items()}

    assert {name: crawl.code for name, crawl in refused.items()} == dict.fromkeys(REFUSED, 2)
    for name, (_, saying) in REFUSED.items():
        assert saying in refused[name].err
        assert "Traceback" not in refused[name].err
    assert machine.database.value("SELECT count(*) FROM jobs_job") == 0


def test_no_password_of_an_address_is_in_the_name_of_its_job(machine):
    crawl = machine.crawl("http://somebody:secret@127.0.0.1:9/")

    assert crawl.code == 1
    assert "secret" not in crawl.out
    assert machine.database.value("SELECT count(*) FROM jobs_job WHERE name LIKE %s", "%secret%") == 0


def test_a_crawl_that_is_interrupted_at_its_start_ends_without_a_traceback(machine):
    crawl = machine.start("crawl", URL, "--output", "null", is_forked=False)
    # Interrupt the command while it still imports its modules.
    wait_for(lambda: is_mapped(crawl, "psycopg"), saying="the command starts")
    crawl.send(signal.SIGINT)

    assert ended(crawl).code == 130


def is_mapped(command, library):
    return any(library in mapped.path for mapped in psutil.Process(command.pid).memory_maps())
