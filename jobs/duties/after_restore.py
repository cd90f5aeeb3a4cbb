"""
The duty after a restore of the database. The outputs are newer than the database, so a background task verifies and
repairs each output.

The run in progress, or the next one, reads again all documents that were read after the backup. Before its end,
documents that it has not reached yet would look like ghosts. So the verification of an output waits for one run of each
of its jobs, but at most one day. The delete guard's thresholds then apply to the removal of ghosts.
"""

import logging
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from jobs.connectors.output.base import Lists
from jobs.connectors.output.registry import is_installed, open_output
from jobs.connectors.schema import BadSpecification
from jobs.duties.context import Pass
from jobs.models import OutputConnection
from jobs.queries.restores import CATCH_UP_WITHIN, jobs_behind
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term
from nodes.models import DatabaseRestore
from nodes.tasks import kinds
from nodes.tasks.channels import RECRUIT, notify

logger = logging.getLogger(__name__)

RESTORES_TO_HANDLE: Final[LiteralString] = (
    f"%(scope)s = '{CLUSTER_SCOPE}' AND EXISTS (SELECT FROM nodes_databaserestore WHERE handled_at IS NULL)"
)
# The key of the task that verifies archives. The key of a task that verifies an output is the id of the output.
_ARCHIVE: Final = "archive"

_INSERT: Final[LiteralString] = """
INSERT INTO tasks_task (kind, arguments, "group", urn, retry_policy, created_at, created_by, made_of, made_of_urn, scheduled_at)
VALUES (%(kind)s, %(arguments)s, 'generic', '', %(policy)s, clock_timestamp(), 'crawlctl', 'duty', %(urn)s, clock_timestamp())
RETURNING id
"""
_NOTE: Final[LiteralString] = "UPDATE nodes_databaserestore SET outputs = outputs || %(added)s WHERE id = %(id)s"
_END: Final[LiteralString] = "UPDATE nodes_databaserestore SET handled_at = clock_timestamp() WHERE id = %(id)s"
_HAS_ARCHIVES: Final[LiteralString] = "SELECT EXISTS (SELECT FROM jobs_archivefile)"


def verify_after_restore(at: Pass) -> int:
    """Schedule the verification of each output whose jobs have caught up; return the number of verifications."""
    *earlier, restore = DatabaseRestore.objects.filter(handled_at=None).order_by("id")
    for one in earlier:
        at.connection.execute(_END, {"id": one.pk})
    scheduled = 0
    is_late = restore.noticed_at < at.now - CATCH_UP_WITHIN
    waiting = False
    for output in OutputConnection.objects.order_by("pk"):
        key = str(output.pk)
        if key in restore.outputs:
            continue
        if not is_late and jobs_behind(output, since=restore.noticed_at).exists():
            waiting = True
            continue
        reason = _why_not_verified(output)
        if reason:
            at.connection.execute(_NOTE, {"id": restore.pk, "added": Jsonb({key: reason})})
        else:
            _schedule(at, restore, key=key, kind="verify_output", arguments={"output": output.name, "repair": True})
            scheduled += 1
    if _ARCHIVE not in restore.outputs:
        _verify_archives(at, restore)
    if not waiting:
        at.connection.execute(_END, {"id": restore.pk})
    return scheduled


def _verify_archives(at: Pass, restore: DatabaseRestore) -> None:
    """Schedule the verification of archive files if there are any, and if its kind of tasks is installed."""
    row = at.connection.execute(_HAS_ARCHIVES).fetchone()
    if row is not None and row[0] and "verify_archive" in kinds.installed():
        _schedule(at, restore, key=_ARCHIVE, kind="verify_archive", arguments={"repair": True})


def _schedule(at: Pass, restore: DatabaseRestore, *, key: str, kind: str, arguments: dict[str, Any]) -> None:
    policy = dict(kinds.find(kind).retry_policy)
    facts = {
        "kind": kind,
        "arguments": Jsonb(arguments),
        "policy": Jsonb(policy),
        "urn": f"restore-{restore.pk}-{key}",
    }
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        row = at.connection.execute(_INSERT, facts).fetchone()
        assert row is not None
        at.connection.execute(_NOTE, {"id": restore.pk, "added": Jsonb({key: row[0]})})
        notify(at.connection, RECRUIT)


def _why_not_verified(output: OutputConnection) -> str:
    """Return the reason why an output cannot be verified; '' if the connector of the output can list its documents."""
    if not is_installed(output.connector):
        return f"the connector {output.connector} is not installed"
    try:
        return (
            "" if isinstance(open_output(output), Lists) else f"the connector {output.connector} cannot list documents"
        )
    except BadSpecification as error:
        return str(error)
    except Exception as defect:
        # A defect of an installed output must not stop the verification of the other outputs.
        logger.exception("defect of the output connector %s", output.connector)
        return f"the connector {output.connector} has a defect ({type(defect).__name__})"
