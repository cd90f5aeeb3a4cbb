"""While the database is down, the web server logs one line with the reason for each request."""

import logging

from django.test import Client


def test_a_request_during_a_database_outage_is_logged_as_one_line(database_away, caplog):
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = 32 * "k"

    assert client.get("/").status_code == 503

    (record,) = [record for record in caplog.records if record.name == "django.request"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is None
    reason = "its server does not run or refuses connections"
    assert record.getMessage() == f"The database does not answer: {reason}. Answered / with 503."
