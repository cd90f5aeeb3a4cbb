"""
The other rows of a large cluster with a filled queue (`tests.support.filled_queue`): very many of each thing that
pages, lists and duties show or choose from. A few statements make them.
"""

from typing import Any, Final

import psycopg

# Statement that copies the model row. Some columns get new values.
_COPIED: Final = """
INSERT INTO {table} ({columns})
SELECT {values} FROM {table} AS one CROSS JOIN generate_series(1, %(many)s) AS n WHERE one.{key} = %(one)s
"""
_COLUMNS: Final = """
SELECT attname FROM pg_attribute
 WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
"""

_STATEMENTS: Final = [
    # The first job has very many seeds, and each other job has one.
    """
    INSERT INTO jobs_seed (job_id, urls, policy_id, seeded_run)
    SELECT (SELECT min(id) FROM jobs_job), ARRAY['http://seed' || n || '.example/'], NULL::bigint, 1 FROM generate_series(1, %(many)s / 2) AS n
     UNION ALL
    SELECT id, ARRAY['http://' || id || '.example/'], NULL, 0 FROM jobs_job WHERE name LIKE '%%, number %%'
    """,
    """
    INSERT INTO jobs_job_outputs (job_id, outputconnection_id)
    SELECT job.id, (SELECT min(id) FROM jobs_outputconnection) FROM jobs_job AS job WHERE name LIKE '%%, number %%'
    """,
    """
    INSERT INTO jobs_throttlegroup (seed_id, node_scope, owner_id, epoch, state, weight)
    SELECT id, 'cluster', (SELECT min(id::text)::uuid FROM nodes_node WHERE kind = 'manager' AND status = 'running'), 1, 'owned', 1
      FROM jobs_seed WHERE policy_id IS NULL
    """,
    "UPDATE jobs_seed AS seed SET group_id = held.id FROM jobs_throttlegroup AS held WHERE held.seed_id = seed.id",
    # Each job has counters of two runs.
    """
    INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
    SELECT job.id, run, 'bytes', 0, 0, '', 7 FROM jobs_job AS job, generate_series(1, 2) AS run WHERE name LIKE '%%, number %%'
    """,
    # Every second job has its own connection.
    """
    UPDATE jobs_job AS job SET repository_id = own.id
      FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM jobs_repositoryconnection) AS own
      JOIN (SELECT id, row_number() OVER (ORDER BY id) AS place FROM jobs_job) AS one ON one.place = 2 * own.place
     WHERE job.id = one.id AND job.name LIKE '%%, number %%'
    """,
    # Ended nodes.
    """
    INSERT INTO nodes_node (id, kind, name, scope, status, started_at, heartbeat_at, timeout_seconds, stopped_at, host, pid)
    SELECT gen_random_uuid(), CASE WHEN n %% 2 = 0 THEN 'worker' ELSE 'manager' END, 'gone ' || n, 'cluster', 'failed',
           now() - n * interval '1 min', now() - n * interval '1 min', 10, now() - n * interval '1 min', 'there', n
      FROM generate_series(1, %(many)s) AS n
    """,
    """
    INSERT INTO nodes_nodeevent (node_id, scope, kind, message, at)
    SELECT (SELECT min(id::text)::uuid FROM nodes_node), 'cluster', CASE WHEN n %% 5000 = 0 THEN 'elected' ELSE 'running' END, 'it runs',
           now() - n * interval '1 s'
      FROM generate_series(1, 5 * %(many)s) AS n
    """,
    """
    INSERT INTO jobs_jobevent (job_id, job_name, at, kind, made_by, message, detail)
    SELECT job_id, 'a job', now() - n * interval '1 s', 'start', 'a test', 'started', '{}'
      FROM generate_series(1, 3 * %(many)s) AS n, (SELECT min(id) AS job_id FROM jobs_job) AS job
    """,
    """
    INSERT INTO nodes_clusterrequest (kind, scope, dry_run, asked_by, asked_at, state, reason, answered_at, answer)
    SELECT 'rebalance', 'cluster', false, 'a test', now(), 'done', '', now(), '{"moves": [], "before": [], "after": []}'
      FROM generate_series(1, %(many)s)
    """,
    """
    INSERT INTO nodes_settingsversion (version, document, made_by)
    SELECT n, '{}', 'a test' FROM generate_series(1, %(many)s) AS n
    """,
    """
    INSERT INTO nodes_distributedjobonnode (cluster, job, node, items, in_progress, runs, failures, failures_in_a_row, seen_at)
    SELECT 'jobs', 'job-' || n, 'node', '{}', 0, 7, 0, 0, now() FROM generate_series(1, 300) AS n
    """,
    # Background tasks: many ended ones, some waiting ones, their workers and templates.
    """
    INSERT INTO tasks_archivedtask (id, kind, arguments, "group", retry_policy, created_by, attempts, why, archived_at,
                                    last_started_at, last_ended_at)
    SELECT 1000000 + n, 'sleep', '{"seconds": 1}', 'group-' || n %% 20, '{"policy": "never"}', 'a test', 1 + n %% 3,
           CASE WHEN n %% 50 = 0 THEN 'tried-too-many-times' ELSE 'done' END, at, at - n %% 7 * interval '1 s', at
      FROM generate_series(1, 2 * %(many)s) AS n, LATERAL (SELECT now() - n * interval '10 s' AS at) AS moment
    """,
    """
    INSERT INTO tasks_task (kind, arguments, "group", retry_policy, created_by, scheduled_at)
    SELECT 'sleep', '{"seconds": 1}', 'group-' || n %% 20, '{"policy": "never"}', 'a test', now() + n * interval '1 min'
      FROM generate_series(1, %(many)s / 10) AS n
    """,
    """
    INSERT INTO tasks_taskworker (id, name, work_on, host, pid)
    SELECT gen_random_uuid(), 'tasks-' || n, 'group-' || n %% 20, 'there', n FROM generate_series(1, %(many)s / 20) AS n
    """,
    """
    INSERT INTO tasks_tasktemplate (urn, kind, arguments, "group", retry_policy, schedule, created_by, next_at)
    SELECT 'template ' || n, 'sleep', '{"seconds": 1}', 'generic', '{"policy": "never"}', '{"cron": "14 2 * * *"}', 'a test',
           now() + interval '1 day' FROM generate_series(1, %(many)s / 20) AS n
    """,
    # Parent bins of hosts. Their names sort before those of all hosts.
    """
    WITH made AS (
        INSERT INTO jobs_bin (namespace, name, "interval", is_known)
        SELECT 'address', '10.' || n / 65536 || '.' || n / 256 %% 256 || '.' || n %% 256, 0, true
          FROM generate_series(1, 2 * %(many)s) AS n
        RETURNING id
    )
    INSERT INTO jobs_binstate (bin_id) SELECT id FROM made
    """,
    # Some hundred documents in progress, and some failed. Fetched documents are indexed and in the history.
    """
    INSERT INTO jobs_batch (group_id, node_scope, kind, state, documents, created_at, sent_at, worker_id)
    SELECT (SELECT min(id) FROM jobs_throttlegroup), 'cluster', 'process', 'sent', 16, now(), now(), node.id
      FROM nodes_node AS node, generate_series(1, 4) WHERE node.kind = 'worker' AND node.status = 'running'
    """,
    """
    WITH given AS (
        SELECT id, row_number() OVER (ORDER BY id) AS place FROM jobs_batch WHERE state = 'sent'
    ), chosen AS (
        SELECT hash, job_id, row_number() OVER (ORDER BY md5(hash::text)) AS place FROM jobs_queueitem
         WHERE stage = 0 ORDER BY md5(hash::text) LIMIT (SELECT 16 * count(*) FROM given)
    )
    UPDATE jobs_queueitem AS item SET stage = 1, seq = NULL, check_time = NULL, batch_id = given.id
      FROM chosen JOIN given ON given.place = 1 + (chosen.place - 1) / 16
     WHERE item.hash = chosen.hash AND item.job_id = chosen.job_id
    """,
    """
    UPDATE jobs_queueitem
       SET stage = 2, seq = NULL, outcome = CASE WHEN substr(hash::text, 1, 2) = '7f' THEN 3 ELSE 1 END,
           result_code = CASE WHEN substr(hash::text, 1, 2) = '7f' THEN '500' ELSE '200' END
     WHERE stage = 0 AND (substr(hash::text, 2, 1) < '5' OR substr(hash::text, 1, 2) = '7f')
    """,
    "DELETE FROM jobs_counter",
    """
    INSERT INTO jobs_counter (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', stage, outcome, result_code, count(*)
      FROM jobs_queueitem GROUP BY job_id, lane_id, run_no, stage, outcome, result_code
    """,
    "DELETE FROM jobs_jobcounter WHERE job_id IN (SELECT job_id FROM jobs_counter)",
    """
    INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, run_no, measure, stage, outcome, code, sum(amount) FROM jobs_counter GROUP BY 1, 2, 3, 4, 5, 6
    """,
    "INSERT INTO jobs_outlinks (hash, job_id, targets, is_redirect) SELECT hash, job_id, ARRAY[hash], false FROM jobs_queueitem",
    """
    INSERT INTO jobs_indexeddocument (output_id, hash, version, indexed_at)
    SELECT (SELECT min(id) FROM jobs_outputconnection), hash, '1:a', now() FROM jobs_queueitem WHERE outcome = 1
    """,
    """
    INSERT INTO jobs_batch (group_id, node_scope, kind, state, documents, created_at)
    SELECT (SELECT min(id) FROM jobs_throttlegroup), 'cluster', 'process', 'done', 32, now()
      FROM generate_series(1, 5 * %(many)s)
    """,
    """
    INSERT INTO jobs_turn (batch_id, lane_id, bin_id, documents, requests, gap, closed_at)
    SELECT id, 1, 1, 32, 1, 0, CASE state WHEN 'done' THEN now() END FROM jobs_batch
    """,
    """
    INSERT INTO jobs_searchdocument (output_id, hash, url, title, description, text, content_type, language, fetched_at, written_at, vector)
    SELECT (SELECT min(id) FROM jobs_outputconnection), md5(n::text)::uuid, 'http://a.example/' || n, 'page ' || n, '',
           'word word' || n, 'text/html', 'en', now(), now(), to_tsvector('english', 'word word' || n)
      FROM generate_series(1, 2 * %(many)s) AS n
    """,
    """
    INSERT INTO auth_user (password, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined)
    SELECT '', false, 'visitor ' || n, '', '', '', false, true, now() FROM generate_series(1, %(many)s) AS n
    """,
    """
    INSERT INTO django_admin_log (action_time, object_id, object_repr, action_flag, change_message, content_type_id, user_id)
    SELECT now(), (SELECT min(id) FROM jobs_job)::text, 'a job', 2, '', (SELECT id FROM django_content_type WHERE app_label = 'jobs' AND model = 'job'),
           (SELECT max(id) FROM auth_user)
      FROM generate_series(1, %(many)s)
    """,
]


def bring_in(connection: psycopg.Connection[Any], *, many: int, workers: int = 20) -> None:
    """Add `many` of each thing to the database of a filled queue, and `workers` live workers."""
    _copy(
        connection,
        "nodes_node",
        "id",
        many=workers,
        where="kind = 'worker'",
        id="gen_random_uuid()",
        name="'worker ' || n",
    )
    _copy(connection, "jobs_repositoryconnection", "id", many=many, name="one.name || ', number ' || n")
    _copy(connection, "jobs_outputconnection", "id", many=many, name="one.name || ', number ' || n")
    _copy(connection, "jobs_throttlepolicy", "id", many=many, name="one.name || ', number ' || n")
    _copy(
        connection,
        "jobs_job",
        "id",
        many=many,
        name="one.name || ', number ' || n",
        phase="'inactive'",
        started_at="now() - n * interval '1 min'",
        ended_at="now()",
    )
    for statement in _STATEMENTS:
        connection.execute(statement, {"many": many})
    connection.execute("VACUUM ANALYZE")


def _copy(
    connection: psycopg.Connection[Any], table: str, key: str, *, many: int, where: str = "true", **others: str
) -> None:
    """Insert `many` copies of the first row, with other values in some columns."""
    columns = [row[0] for row in connection.execute(_COLUMNS, {"table": table})]
    one = connection.execute(f"SELECT {key} FROM {table} WHERE {where} ORDER BY {key} LIMIT 1").fetchone()
    assert one is not None
    statement = _COPIED.format(
        table=table,
        key=key,
        columns=", ".join(f'"{name}"' for name in columns),
        values=", ".join(others.get(name, f'one."{name}"') for name in columns),
    )
    connection.execute(statement, {"many": many, "one": one[0]})
