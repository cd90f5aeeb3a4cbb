"""The kinds of tasks of notifications."""

from typing import Final

from jobs.notices.checking import check_notices
from jobs.notices.mailings import mail_report
from jobs.notices.sending import send_notice
from nodes.tasks.kinds import Kind

CHECK: Final = Kind(
    name="check_notices",
    title="Compare the attention list and journals with the rules of notifications",
    run=check_notices,
    is_internal=True,
)
SEND: Final = Kind(
    name="send_notice",
    title="Send a message of a notification channel",
    run=send_notice,
    properties={"message": {"type": "integer", "minimum": 1}},
    required=("message",),
    retry_policy={"policy": "exponential", "times": 6, "seconds": 30},
    is_internal=True,
)

REPORT: Final = Kind(
    name="mail_report",
    title="Send a scheduled report by e-mail",
    run=mail_report,
    properties={"mailing": {"type": "string", "maxLength": 100}},
    required=("mailing",),
    retry_policy={"policy": "exponential", "times": 4, "seconds": 60},
)

KINDS: Final = (CHECK, SEND, REPORT)
