"""Proves that real daemons send a notification within a minute, although its receivers accept it slowly."""

import json
import time

from jobs.models import JobEvent
from jobs.notices import verbs
from jobs.notices.channels.signing import new_secret
from jobs.notices.models import NotificationCheck, NotificationMessage
from nodes.database.clock import read_clock
from tests.support.factories import make_job
from tests.support.processes import wait_for
from tests.support.receivers import mailbox, receiver

SOON = {"policy": "times", "times": 5, "seconds": 1}


def test_an_event_is_mailed_and_posted_within_a_minute(cluster):
    cluster.start("runmanager")
    cluster.machine.start("runtasks")
    job = make_job("books")
    with mailbox() as mails, receiver() as hook:
        mail = {"host": "127.0.0.1", "port": mails.port, "security": "none", "sender": "crawl@a.example"}
        facts = {"retry_policy": SOON, "made_by": "vera"}
        channels = [
            verbs.create_channel(
                name="mail", kind="email", configuration={**mail, "recipients": ["ops@a.example"]}, **facts
            ),
            verbs.create_channel(
                name="hook", kind="webhook", configuration={"url": hook.url, "secret": new_secret()}, **facts
            ),
        ]
        hook.answers += 2 * [(503, b"busy", {})]
        verbs.create_rule(
            name="fails", topics=["job_fails"], channels=[channel.pk for channel in channels], made_by="vera"
        )
        # Wait for the first check: earlier events make no messages.
        wait_for(NotificationCheck.objects.exists, saying="the rules were checked once")

        began = time.monotonic()
        JobEvent.objects.create(
            job=job, job_name=job.name, at=read_clock(), kind="fail", made_by="worker", message="ends with an error"
        )
        wait_for(lambda: mails.mails and len(hook.requests) == 3, saying="both messages have arrived", within=60)

        assert time.monotonic() - began < 60
        assert mails.mails[0]["Subject"] == "[crawlctl] A job fails: books"
        assert json.loads(hook.requests[2].body)["type"] == "crawlctl.job_fails.event"
        assert len({request.headers["webhook-id"] for request in hook.requests}) == 1
        wait_for(
            lambda: NotificationMessage.objects.filter(state="sent").count() == 2, saying="both messages are logged"
        )
        assert sorted(NotificationMessage.objects.values_list("attempts", flat=True)) == [1, 3]
