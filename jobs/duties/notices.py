"""The duty of notifications: the main manager inserts the task that checks the rules. It sends nothing itself."""

from typing import Final, LiteralString

from psycopg.types.json import Jsonb

from jobs.duties.context import Pass
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term
from nodes.tasks.channels import RECRUIT, notify

# Interval of checks (seconds). Also the shortest time between two checks, because a change of a job makes all duties
# due.
CHECK_EVERY: Final = 20.0
# True if the rules must be checked: there is a rule, an open condition or an unsent message, and no other check waits
# or runs.
NOTICES_TO_CHECK: Final[LiteralString] = f"""
%(scope)s = '{CLUSTER_SCOPE}'
AND (EXISTS (SELECT FROM notices_notificationrule WHERE is_enabled)
     OR EXISTS (SELECT FROM notices_notificationcondition WHERE ended_at IS NULL)
     OR EXISTS (SELECT FROM notices_notificationmessage WHERE state = 'suppressed')
     OR EXISTS (SELECT FROM notices_notificationmessage AS message
                 WHERE state = 'waiting' AND NOT EXISTS (SELECT FROM tasks_task AS task WHERE task.id = message.task)))
AND NOT EXISTS (SELECT FROM tasks_task WHERE made_of = 'duty' AND made_of_urn = 'check_notices')
AND NOT EXISTS (SELECT FROM notices_notificationcheck WHERE checked_at > clock_timestamp() - interval '5 seconds')
"""
_INSERT: Final[LiteralString] = """
INSERT INTO tasks_task (kind, arguments, "group", urn, retry_policy, created_at, created_by, made_of, made_of_urn, scheduled_at)
SELECT 'check_notices', %(nothing)s, 'generic', '', %(policy)s, clock_timestamp(), 'manager', 'duty', 'check_notices',
       clock_timestamp()
 WHERE NOT EXISTS (SELECT FROM tasks_task WHERE made_of = 'duty' AND made_of_urn = 'check_notices')
"""


def request_check(at: Pass) -> int:
    """Insert the task of the next check; return 1 if it was inserted."""
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        facts = {"nothing": Jsonb({}), "policy": Jsonb({"policy": "never"})}
        inserted = at.connection.execute(_INSERT, facts).rowcount
        notify(at.connection, RECRUIT)
    return inserted
