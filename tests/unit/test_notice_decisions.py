"""
Proves that conditions and events become messages at the right time, and that webhooks are signed by the specification.
"""

import datetime as dt
import re
from pathlib import Path

import pytest

from jobs.notices.channels.signing import new_secret, read_secret, signed_headers
from jobs.notices.decisions import Occurrence, OpenCondition, compare, messages_left
from jobs.notices.topics import ATTENTION

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)


def seen(key="a", topic="host_fails", event=""):
    return Occurrence(topic=topic, key=key, subject=key, sentence="It fails.", link="", since=NOON, event=event)


def known(key="a", *, last_message_at=NOON, missing_since=None, topic="host_fails"):
    return OpenCondition(id=7, topic=topic, key=key, last_message_at=last_message_at, missing_since=missing_since)


def changes(now_seen, open_=(), *, at=NOON, full=(), remind_after=None):
    return compare(now_seen, open_, full=frozenset(full), remind_after=remind_after, now=at)


def test_a_lasting_condition_is_reported_as_new_only_once():
    assert changes([seen()]).new == [seen()]
    later = changes([seen()], [known()], at=NOON + 60 * MINUTE)
    assert (later.new, later.reminders, later.ended) == ([], [], [])


def test_a_reminder_comes_after_its_time_and_not_before():
    assert changes([seen()], [known()], at=NOON + 59 * MINUTE, remind_after=60 * MINUTE).reminders == []
    assert changes([seen()], [known()], at=NOON + 60 * MINUTE, remind_after=60 * MINUTE).reminders == [(7, seen())]


def test_a_condition_that_flickers_has_not_ended():
    assert changes([], [known()]).missing == [7]
    away = known(missing_since=NOON)
    assert changes([], [away], at=NOON + MINUTE / 2).ended == []
    assert changes([seen()], [away], at=NOON + 2 * MINUTE).present == [7]
    assert changes([], [away], at=NOON + MINUTE).ended == [7]


def test_a_condition_missing_from_a_full_list_does_not_count_as_ended():
    away = known(missing_since=NOON)

    assert changes([], [away], at=NOON + 60 * MINUTE, full={"host_fails"}).ended == []


def test_a_condition_of_a_muted_rule_is_sent_when_the_muting_ends():
    assert changes([seen()], [known(last_message_at=None)]).unmuted == [(7, seen())]


def test_an_event_is_sent_unless_its_condition_lasts():
    assert changes([seen(event="job-1")]).events == [seen(event="job-1")]
    assert changes([seen(), seen(event="job-1")]).events == []
    assert changes([seen(event="job-1")], [known()]).events == []


def test_a_channel_sends_at_most_its_limit_of_messages_an_hour():
    sent = [NOON - 70 * MINUTE, NOON - 50 * MINUTE, NOON - MINUTE]

    assert messages_left(sent, most_an_hour=3, now=NOON) == 1
    assert messages_left(sent, most_an_hour=1, now=NOON) == 0


def test_a_signature_is_that_of_the_specification():
    headers = signed_headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
def test_a_secret_of_another_form_or_length_is_refused(secret):
    assert len(read_secret(new_secret())) == 32
    with pytest.raises(ValueError, match="whsec_"):
        read_secret(secret)


def test_every_kind_of_the_attention_list_is_a_topic():
    found = set()
    for file in (*Path("jobs/attention").glob("*.py"), Path("jobs/authorities/attention.py")):
        if file.name != "limits.py":
            found |= set(re.findall(r'(?:kind|_KIND: Final) ?= ?"([a-z_]+)"', file.read_text()))
    found |= {"output_refuses", "connector_missing", "no_manager", "no_worker"}

    assert found == set(ATTENTION)
