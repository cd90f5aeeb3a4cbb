"""
The audit log: every write that a fence guards, with its writer, in the order of the commits.

Triggers write the log in the transactions that they watch, so it holds exactly the committed writes. The name of a
session identifies the writer. A daemon's sessions begin with the id of its node, and Django's connection carries the
name of the process. If a lock keeps two writes apart, the first write has the earlier commit timestamp, which is taken
under the lock.

Only this module opens the database. Checkers read the file that `export` made.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

# Server configuration for the audit log. The log level is high because the server is killed again and again.
CONFIGURATION = """
track_commit_timestamp = on
max_connections = 200
log_min_messages = panic
"""

_INSTALL = """
CREATE TABLE chaos_audit (
    id bigserial, transaction xid8 DEFAULT pg_current_xact_id(),
    writer text DEFAULT split_part(current_setting('application_name'), ' ', 1), what text, facts jsonb
);

CREATE FUNCTION chaos_audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE was jsonb; is_ jsonb; names text[]; name text;
BEGIN
    IF TG_OP <> 'INSERT' THEN was := to_jsonb(OLD); END IF;
    IF TG_OP <> 'DELETE' THEN is_ := to_jsonb(NEW); END IF;
    -- The trigger's arguments: the subject, then the columns. Each row has the old and the new value of each column.
    FOR position IN 1 .. TG_NARGS - 1 LOOP
        names := names || TG_ARGV[position];
    END LOOP;
    INSERT INTO chaos_audit (what, facts)
    SELECT TG_ARGV[0], jsonb_object_agg(column_, jsonb_build_array(was -> column_, is_ -> column_))
      FROM unnest(names) AS shown(column_);
    RETURN NULL;
END $$;

CREATE TRIGGER chaos_term AFTER INSERT OR UPDATE ON nodes_mainterm
   FOR EACH ROW EXECUTE FUNCTION chaos_audit('term', 'scope', 'term', 'main_id', 'resigned');
CREATE TRIGGER chaos_registered AFTER INSERT ON nodes_node
   FOR EACH ROW EXECUTE FUNCTION chaos_audit('node', 'id', 'name', 'kind', 'scope', 'status');
CREATE TRIGGER chaos_moved AFTER UPDATE ON nodes_node
   FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION chaos_audit('node', 'id', 'name', 'kind', 'scope', 'status');
CREATE TRIGGER chaos_refused AFTER UPDATE ON nodes_node
   FOR EACH ROW WHEN (OLD.refused_writes <> NEW.refused_writes)
   EXECUTE FUNCTION chaos_audit('refused', 'id', 'refused_writes');
CREATE TRIGGER chaos_beat AFTER UPDATE ON nodes_node
   FOR EACH ROW WHEN (OLD.heartbeat_at <> NEW.heartbeat_at AND OLD.status IN ('stopped', 'failed'))
   EXECUTE FUNCTION chaos_audit('beat', 'id', 'status');
CREATE TRIGGER chaos_group AFTER INSERT OR UPDATE ON jobs_throttlegroup
   FOR EACH ROW EXECUTE FUNCTION chaos_audit('group', 'id', 'owner_id', 'epoch', 'state');
CREATE TRIGGER chaos_batch AFTER INSERT OR UPDATE ON jobs_batch
   FOR EACH ROW EXECUTE FUNCTION chaos_audit('batch', 'id', 'group_id', 'manager_id', 'worker_id', 'state', 'kind');
CREATE TRIGGER chaos_document AFTER UPDATE OF batch_id ON jobs_queueitem
   FOR EACH ROW EXECUTE FUNCTION chaos_audit('document', 'hash', 'job_id', 'batch_id', 'stage', 'result_code');
CREATE TRIGGER chaos_job AFTER UPDATE ON jobs_job
   FOR EACH ROW WHEN (OLD.phase <> NEW.phase OR OLD.pause <> NEW.pause)
   EXECUTE FUNCTION chaos_audit('job', 'id', 'phase', 'pause', 'reason');
"""

# Moments are seconds of the server's clock. Uncommitted writes are invisible here, and therefore left out.
_EXPORT = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(transaction::xid))::float8, transaction::text, writer, what, facts
  FROM chaos_audit ORDER BY 1, transaction, id
"""


@dataclass(frozen=True, slots=True)
class Write:
    """
    One committed change of a row. `at` is the moment of the commit, and `transaction` identifies the transaction.

    `before` and `after` are the columns of the row. `before` is empty for a new row.
    """

    at: float
    transaction: str
    writer: str
    what: str
    before: dict[str, Any]
    after: dict[str, Any]


def install(dsn: str) -> None:
    """Install the log in a database whose tables exist."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_INSTALL)


def export(dsn: str, path: Path) -> None:
    """Write all commits so far to a file of JSON lines."""
    with psycopg.connect(dsn, autocommit=True) as connection, path.open("w") as file:
        for row in connection.execute(_EXPORT):
            file.write(json.dumps(row) + "\n")


def read(path: Path) -> list[Write]:
    """Return the writes of an exported log, in the order of their commits."""
    with path.open() as lines:
        return [_write(*json.loads(line)) for line in lines]


def _write(at: float, transaction: str, writer: str, what: str, facts: dict[str, list[Any]]) -> Write:
    before = {name: was for name, (was, _) in facts.items()}
    is_new = all(was is None for was in before.values())
    return Write(
        at, transaction, writer, what, {} if is_new else before, {name: is_ for name, (_, is_) in facts.items()}
    )
