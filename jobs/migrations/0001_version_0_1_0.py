"""The tables of jobs, documents and their processing."""

import datetime
import re
from typing import Final

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
from django.db import migrations, models

import jobs.lifecycle.document
import jobs.lifecycle.job
import jobs.models.archive
import nodes.models.word_search

# The number that orders due documents.
_NUMBERS: Final = "CREATE SEQUENCE jobs_document_number"

# Half of a document's updates move it in or out of a partial index, so they cannot be HOT. The indexes stay small if
# dead entries go soon, and the default waits for a fifth of the table.
_BUSY: Final = (
    "autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 2000"
)
_BUSY_TABLES: Final = ("queueitem", "counterdelta", "batch", "turn", "lane", "lanestate", "bin", "binstate")
# A few rows, each written about once a second. Its pages are mostly empty: the next version of a row lies beside the
# last one and needs no entry in the index.
_ROOM_IN_PAGES: Final = "ALTER TABLE jobs_jobcounter SET (fillfactor = 20)"

# The planner expects many rows of each state, as many as an open snapshot keeps versions. It takes effect with the next
# ANALYZE of the tables, which autovacuum does soon after each change of their statistics.
_MANY_VERSIONS: Final = """
ALTER TABLE jobs_lanestate ALTER COLUMN lane_id SET (n_distinct = -0.1);
ALTER TABLE jobs_binstate ALTER COLUMN bin_id SET (n_distinct = -0.1);
"""

# Partitions by day: a day is dropped in milliseconds, and a deletion of its rows would take long. Django knows the table
# and not its partitions. A partition is named by its day, and the default one has the rows of all other days. The first
# days are made here, because a one-shot crawl may begin immediately.
_DAYS: Final = """
DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
BEGIN
    FOR day IN SELECT today + ahead FROM generate_series(0, 7) AS ahead LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF {table} FOR VALUES FROM (%L) TO (%L)',
            '{table}_' || to_char(day, 'YYYYMMDD'),
            day::timestamp AT TIME ZONE 'UTC',
            (day + 1)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$;
"""
_HISTORY: Final = """
CREATE SEQUENCE jobs_activity_id_seq;
CREATE TABLE jobs_activity (
    id bigint NOT NULL DEFAULT nextval('jobs_activity_id_seq'),
    started_at timestamp with time zone NOT NULL,
    seconds double precision,
    job_id bigint,
    repository_id bigint NOT NULL,
    output_id bigint,
    bytes bigint,
    activity text NOT NULL,
    entity text NOT NULL,
    result_code text NOT NULL DEFAULT '',
    result_description text NOT NULL DEFAULT '',
    node text NOT NULL DEFAULT ''
) PARTITION BY RANGE (started_at);
ALTER SEQUENCE jobs_activity_id_seq OWNED BY jobs_activity.id;
CREATE INDEX activity_of_repository ON jobs_activity (repository_id, started_at);
CREATE TABLE jobs_activity_default PARTITION OF jobs_activity DEFAULT;
"""
# Removed documents. No model reads them.
_TOMBSTONES: Final = """
CREATE TABLE jobs_tombstone (
    removed_at timestamp with time zone NOT NULL,
    job_id bigint NOT NULL,
    run_no integer NOT NULL,
    output_id bigint NOT NULL,
    hash uuid NOT NULL,
    cause text NOT NULL,
    seed_id bigint NOT NULL,
    lane_id bigint NOT NULL,
    bin_name text NOT NULL,
    identifier text NOT NULL,
    item_run integer NOT NULL,
    depth integer NOT NULL,
    redirects smallint NOT NULL,
    outcome smallint NOT NULL,
    result_code text NOT NULL,
    version text NOT NULL,
    validators text NOT NULL,
    fetched_at timestamp with time zone,
    changed_at timestamp with time zone,
    targets uuid[],
    is_redirect boolean,
    left_output boolean NOT NULL,
    title text,
    description text,
    text text,
    content_type text,
    language text,
    text_fetched_at timestamp with time zone,
    access uuid,
    metadata jsonb,
    part text NOT NULL DEFAULT ''
) PARTITION BY RANGE (removed_at);
CREATE INDEX tombstone_of_run ON jobs_tombstone (job_id, run_no, hash);
CREATE TABLE jobs_tombstone_default PARTITION OF jobs_tombstone DEFAULT;
"""

# The database holds that each lane and each bin has exactly one row of state. It checks this at the end of a
# transaction that makes or removes a lane, a bin or a state. No turn does that: an UPDATE of a state is checked only if
# it names another lane or bin.
_ONE_STATE: Final = """
CREATE FUNCTION jobs_{of}_has_a_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_{of} WHERE id = NEW.id) AND NOT EXISTS (SELECT FROM jobs_{of}state WHERE {of}_id = NEW.id) THEN
        RAISE integrity_constraint_violation
            USING MESSAGE = format('{of} %s has no state', NEW.id), TABLE = 'jobs_{of}', CONSTRAINT = '{of}_has_a_state';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_{of}_keeps_its_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_{of} WHERE id = OLD.{of}_id)
       AND NOT EXISTS (SELECT FROM jobs_{of}state WHERE {of}_id = OLD.{of}_id) THEN
        RAISE integrity_constraint_violation
            USING MESSAGE = format('{of} %s has no state any more', OLD.{of}_id), TABLE = 'jobs_{of}state',
                  CONSTRAINT = '{of}_keeps_its_state';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_{of}_has_no_other_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A transaction that adds a state to a {of} which others can see finds the existing one, unless it removed that
    -- state itself. Only one transaction can do so, and no lock is needed.
    IF (SELECT count(*) FROM (SELECT FROM jobs_{of}state WHERE {of}_id = NEW.{of}_id LIMIT 2) AS found) > 1 THEN
        RAISE integrity_constraint_violation
            USING MESSAGE = format('{of} %s has a state already', NEW.{of}_id), TABLE = 'jobs_{of}state',
                  CONSTRAINT = '{of}_has_no_other_state';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER {of}_has_a_state AFTER INSERT ON jobs_{of}
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_{of}_has_a_state();
CREATE CONSTRAINT TRIGGER {of}_keeps_its_state AFTER DELETE OR UPDATE OF {of}_id ON jobs_{of}state
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_{of}_keeps_its_state();
CREATE CONSTRAINT TRIGGER {of}_has_no_other_state AFTER INSERT OR UPDATE OF {of}_id ON jobs_{of}state
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_{of}_has_no_other_state();
"""

# The database counts the changes of a policy and of its rules, whatever program makes them. Values that were computed
# from an older version are known to be old. Many changed rules count once.
_VERSION_OF_POLICY: Final = """
CREATE FUNCTION jobs_count_change_of_policy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END $$;

CREATE TRIGGER policy_version_grows
    BEFORE UPDATE ON jobs_throttlepolicy FOR EACH ROW
    WHEN (NEW.* IS DISTINCT FROM OLD.*)
    EXECUTE FUNCTION jobs_count_change_of_policy();

CREATE FUNCTION jobs_count_change_of_rule() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_throttlepolicy SET version = version + 1 WHERE id IN (SELECT policy_id FROM changed);
    RETURN NULL;
END $$;

CREATE TRIGGER policy_version_grows_with_new_rules
    AFTER INSERT ON jobs_throttlerule REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_change_of_rule();
CREATE TRIGGER policy_version_grows_with_its_rules
    AFTER UPDATE ON jobs_throttlerule REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_change_of_rule();
CREATE TRIGGER policy_version_grows_with_lost_rules
    AFTER DELETE ON jobs_throttlerule REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_change_of_rule();
"""

# A job is marked when one of its seeds may have to join another group, or has to be read again. Duties look at marked
# jobs only. The marks are counts: a duty sets a count to 0 if it is still the number that the duty read.
_MARKS_OF_SEEDS: Final = """
CREATE FUNCTION jobs_mark_new_seeds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_job SET ungrouped = ungrouped + 1, unread = unread + 1 WHERE id IN (SELECT job_id FROM fresh);
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_mark_changed_seeds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_job AS job SET ungrouped = job.ungrouped + found.ungrouped, unread = job.unread + found.unread
      FROM (SELECT fresh.job_id, max((fresh.policy_id IS DISTINCT FROM stale.policy_id
                                      OR fresh.group_id IS NULL AND stale.group_id IS NOT NULL)::int) AS ungrouped,
                   max((fresh.seeded_run < stale.seeded_run)::int) AS unread
              FROM fresh JOIN stale USING (id)
             GROUP BY fresh.job_id) AS found
     WHERE job.id = found.job_id AND (found.ungrouped > 0 OR found.unread > 0);
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_mark_moved_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ungrouped := NEW.ungrouped + 1;
    RETURN NEW;
END $$;

CREATE TRIGGER job_is_told_of_new_seeds
    AFTER INSERT ON jobs_seed REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_mark_new_seeds();
CREATE TRIGGER job_is_told_of_changed_seeds
    AFTER UPDATE ON jobs_seed REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_mark_changed_seeds();
CREATE TRIGGER job_takes_its_seeds_to_another_scope
    BEFORE UPDATE OF node_scope ON jobs_job
    FOR EACH ROW WHEN (NEW.node_scope <> OLD.node_scope) EXECUTE FUNCTION jobs_mark_moved_job();
"""


# Rows of the exchange between partitions are numbered by the database.
_NUMBERED: Final = """
ALTER TABLE jobs_partitionfact ALTER COLUMN number ADD GENERATED BY DEFAULT AS IDENTITY;
ALTER TABLE jobs_foreignreference ALTER COLUMN number ADD GENERATED BY DEFAULT AS IDENTITY;
"""
# Without a key and an index, so that an insert of a document pays little.
_NEW_ADDRESSES: Final = """
CREATE TABLE jobs_newaddress (job_id bigint NOT NULL, hash uuid NOT NULL, address text NOT NULL)
"""
# The database notes new documents, whatever program inserts them, such as a worker of the last release.
_NOTE: Final = """
CREATE FUNCTION jobs_note_new_addresses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_newaddress (job_id, hash, address) SELECT job_id, hash, identifier FROM inserted;
    RETURN NULL;
END $$;

CREATE TRIGGER document_has_its_address_noted
    AFTER INSERT ON jobs_queueitem REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_note_new_addresses();
"""
_NOTE_NO_MORE: Final = """
DROP TRIGGER document_has_its_address_noted ON jobs_queueitem;
DROP FUNCTION jobs_note_new_addresses();
"""
# Statistics of thousands of grams in each row would cost more than all searches.
_NO_STATISTICS: Final = """
ALTER TABLE jobs_addressblock ALTER grams SET STATISTICS 0, ALTER hashes SET STATISTICS 0, ALTER addresses SET STATISTICS 0
"""
# A block is never changed. Blocks are deleted from the beginning of a chain only, and the chain keeps the number and the
# hash of the last deleted block.
_KEEP_BLOCKS: Final = """
CREATE FUNCTION evidence_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'blocks of evidence are not changed' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER evidence_block_is_not_changed BEFORE UPDATE ON jobs_evidenceblock
   FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_append_only();

CREATE FUNCTION evidence_is_not_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_evidenceblock) THEN
        RAISE EXCEPTION 'evidence is not truncated' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER evidence_block_is_not_truncated BEFORE TRUNCATE ON jobs_evidenceblock
   FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_not_truncated();
CREATE TRIGGER evidence_chain_is_not_truncated BEFORE TRUNCATE ON jobs_evidencechain
   FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_not_truncated();

CREATE FUNCTION evidence_is_pruned_from_its_beginning() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM deleted JOIN jobs_evidencechain AS chain ON chain.id = deleted.chain_id
                GROUP BY chain.id, chain.pruned_seq HAVING max(deleted.seq) <> chain.pruned_seq + count(*)) THEN
        RAISE EXCEPTION 'only the first blocks of evidence are deleted' USING ERRCODE = 'restrict_violation';
    END IF;
    UPDATE jobs_evidencechain AS chain SET pruned_seq = last.seq, pruned_hash = last.hash, pruned_at = clock_timestamp()
      FROM (SELECT DISTINCT ON (chain_id) chain_id, seq, hash FROM deleted ORDER BY chain_id, seq DESC) AS last
     WHERE chain.id = last.chain_id;
    RETURN NULL;
END $$;
CREATE TRIGGER evidence_block_is_pruned_from_the_beginning AFTER DELETE ON jobs_evidenceblock
   REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_pruned_from_its_beginning();

CREATE FUNCTION evidence_chain_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.seq > OLD.pruned_seq THEN
            RAISE EXCEPTION 'a chain of evidence with blocks is not deleted' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    IF NEW.host <> OLD.host OR NEW.seq < OLD.seq OR NEW.pruned_seq < OLD.pruned_seq OR NEW.pruned_seq > NEW.seq
       OR (NEW.seq = OLD.seq AND NEW.hash <> OLD.hash) OR (NEW.pruned_seq = OLD.pruned_seq AND NEW.pruned_hash <> OLD.pruned_hash)
       OR NEW.complete_until < OLD.complete_until THEN
        RAISE EXCEPTION 'a chain of evidence only grows' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER evidence_chain_only_grows BEFORE UPDATE OR DELETE ON jobs_evidencechain
   FOR EACH ROW EXECUTE FUNCTION evidence_chain_only_grows();
"""
# Texts of versions are compressed already, so the database compresses none again.
_COMPRESSED: Final = "ALTER TABLE jobs_documentversion ALTER COLUMN text SET STORAGE EXTERNAL"


def _functions_dropped(statement: str) -> str:
    """Return a statement that drops the functions which this one creates, with their triggers."""
    return " ".join(f"DROP FUNCTION {name} CASCADE;" for name in re.findall(r"CREATE FUNCTION (\w+)", statement))


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("jobs", "0001_the_crawl"),
        ("jobs", "0002_queue_order_and_storage"),
        ("jobs", "0003_policy_spares_loopback"),
        ("jobs", "0004_unenforced_batches"),
        ("jobs", "0005_private_policies_go_with_their_job"),
        ("jobs", "0006_schedules_intervals_and_notifications"),
        ("jobs", "0007_history_by_day"),
        ("jobs", "0008_seeds_remember_their_version"),
        ("jobs", "0009_bins_have_usual_limits"),
        ("jobs", "0010_job_states"),
        ("jobs", "0011_links_and_hop_counts"),
        ("jobs", "0012_documents_of_continuous_jobs"),
        ("jobs", "0013_what_is_carried"),
        ("jobs", "0014_outputs_written_anew_and_cleared"),
        ("jobs", "0015_gates"),
        ("jobs", "0016_sessions_of_connections"),
        ("jobs", "0017_hop_counts_by_source"),
        ("jobs", "0018_events_outlive_jobs"),
        ("jobs", "0019_limits_of_retries"),
        ("jobs", "0020_histories_can_be_cleared"),
        ("jobs", "0021_groups_are_released"),
        ("jobs", "0022_tags"),
        ("jobs", "0023_invariant_checks"),
        ("jobs", "0024_outputs_that_jobs_left"),
        ("jobs", "0025_batches_are_of_documents"),
        ("jobs", "0026_policies_say_more"),
        ("jobs", "0027_bins_have_parents_and_can_be_stopped"),
        ("jobs", "0028_bins_count_their_use"),
        ("jobs", "0029_bins_know_their_address"),
        ("jobs", "0030_documents_amiss_are_found"),
        ("jobs", "0031_lanes_that_are_ahead"),
        ("jobs", "0032_policies_know_when_they_changed"),
        ("jobs", "0033_rules_are_counted_together"),
        ("jobs", "0034_room_in_pages_of_bins"),
        ("jobs", "0035_a_floor_below_what_is_in_work"),
        ("jobs", "0036_counts_of_jobs"),
        ("jobs", "0037_counts_of_jobs_are_added_up"),
        ("jobs", "0038_lanes_that_sleep"),
        ("jobs", "0039_bins_are_placed_by_and_by"),
        ("jobs", "0040_batches_of_a_worker_are_sent"),
        ("jobs", "0041_lists_have_their_indexes"),
        ("jobs", "0042_what_each_turn_changes"),
        ("jobs", "0043_bins_keep_their_last_start"),
        ("jobs", "0044_one_state_a_lane_and_bin"),
        ("jobs", "0045_duties_find_what_is_due"),
        ("jobs", "0046_groups_say_that_they_fail"),
        ("jobs", "0047_jobs_whose_seeds_changed"),
        ("jobs", "0048_bins_know_what_they_owe"),
        ("jobs", "0049_schedules_begin_by_the_databases_clock"),
        ("jobs", "0050_jobs_count_changes_of_their_seeds"),
        ("jobs", "0051_expiry_counts_from_what_sources_say"),
        ("jobs", "0052_seeds_remember_their_redirects"),
        ("jobs", "0053_the_clean_up_of_a_run_may_ask_first"),
        ("jobs", "0054_bins_know_how_long_they_take"),
        ("jobs", "0055_names_are_found_by_their_words"),
        ("jobs", "0056_removed_documents_are_kept_for_days"),
        ("jobs", "0057_hosts_are_stopped_at_every_port_with_a_reason"),
        ("jobs", "0058_connections_of_pages_are_confined"),
        ("jobs", "0059_files_of_outputs_lose_lines"),
        ("jobs", "0060_jobs_miss_windows"),
        ("jobs", "0061_connections_before_the_roots_are_confined"),
        ("jobs", "0062_the_guard_looks_at_single_hosts"),
        ("jobs", "0063_outputs_are_restored"),
        ("jobs", "0064_batches_have_no_deadline"),
        ("jobs", "0065_states_have_many_versions"),
        ("jobs", "0001_release_0_1"),
        ("jobs", "0002_job_chains"),
        ("jobs", "0003_plain_names"),
        ("jobs", "0004_labels"),
        ("jobs", "0005_stored_names"),
        ("jobs", "0006_archive"),
        ("jobs", "0007_verifications"),
        ("jobs", "0008_archive_stores"),
        ("jobs", "0009_archive_verifications"),
        ("jobs", "0010_authority_groups"),
        ("jobs", "0011_idle_nodes"),
        ("jobs", "0012_partitions"),
        ("jobs", "0013_runs"),
        ("jobs", "0014_access"),
        ("jobs", "0015_pipeline"),
        ("jobs", "0016_found_on"),
        ("jobs", "0017_schedule_pauses"),
        ("jobs", "0018_run_ends"),
        ("jobs", "0019_redirect_edges"),
        ("jobs", "0020_limits_of_partitions"),
        ("jobs", "0021_parts"),
        ("jobs", "0022_progress"),
        ("jobs", "0023_removals_of_partitions"),
        ("jobs", "0024_failures"),
        ("jobs", "0025_response_times"),
        ("jobs", "0026_policy_shares"),
        ("jobs", "0027_versions"),
        ("jobs", "0028_rejected_addresses"),
        ("jobs", "0029_move_hold"),
        ("jobs", "0030_past_robots"),
        ("jobs", "0031_hours_of_hosts"),
        ("jobs", "0032_minutes_of_the_cluster"),
        ("jobs", "0033_address_index"),
        ("jobs", "0034_known_addresses"),
        ("jobs", "0035_webmasters_limits"),
        ("jobs", "0036_run_samples"),
        ("jobs", "0037_activity_node"),
        ("jobs", "0038_trap_suspects"),
        ("jobs", "0039_evidence"),
        ("jobs", "0040_document_versions"),
        ("jobs", "0041_freshness"),
        ("jobs", "0042_open_suspects"),
        ("jobs", "0043_rules_of_suspects"),
        ("jobs", "0044_run_differences"),
        ("jobs", "0045_requests_without_goals"),
        ("jobs", "0046_surplus_versions"),
        ("jobs", "0047_revision_of_a_job"),
        ("jobs", "0048_rules_of_other_partitions"),
        ("jobs", "0049_failed_runs"),
        ("jobs", "0050_failures_by_cause"),
        ("jobs", "0051_help_of_tags"),
    ]

    dependencies = [
        ("authorities", "0001_version_0_1_0"),
        ("nodes", "0001_version_0_1_0"),
    ]

    operations = [
        migrations.CreateModel(
            name="AppliedReferences",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_number", "run_no", "source", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("job_number", models.BigIntegerField()),
                ("run_no", models.IntegerField()),
                ("source", models.CharField(max_length=31)),
                ("amount", models.BigIntegerField()),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ArchiveVerification",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "task",
                    models.BigIntegerField(null=True, unique=True, verbose_name="background task, null for a command"),
                ),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_by", models.TextField()),
                (
                    "moved_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="last sign of life"
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                ("refused", models.TextField(db_default="", default="", verbose_name="why the last attempt failed")),
                ("repairs", models.BooleanField(db_default=False, default=False)),
                ("attempt", models.IntegerField(db_default=0, default=0)),
                ("sample", models.FloatField(null=True)),
                ("host", models.TextField(db_default="", default="")),
                ("lost_machine", models.TextField(db_default="", default="")),
                ("cursor", models.BigIntegerField(db_default=0, default=0)),
                ("files", models.BigIntegerField(db_default=0, default=0)),
                ("records", models.BigIntegerField(db_default=0, default=0)),
                ("deleted", models.BigIntegerField(db_default=0, default=0, verbose_name="copies that are missing")),
                ("truncated", models.BigIntegerField(db_default=0, default=0, verbose_name="copies that end early")),
                ("damaged", models.BigIntegerField(db_default=0, default=0, verbose_name="copies with other content")),
                ("foreign", models.BigIntegerField(db_default=0, default=0, verbose_name="files without a row")),
                ("no_record", models.BigIntegerField(db_default=0, default=0, verbose_name="rows without a record")),
                (
                    "no_row",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="files with records without rows"),
                ),
                ("lost", models.BigIntegerField(db_default=0, default=0, verbose_name="documents whose body is lost")),
                (
                    "skipped",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="copies that could not be reached"),
                ),
                ("repaired", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "ordering": ("-id",),
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="ThrottlePolicy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "starts",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "period",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("second", "per second"),
                            ("minute", "per minute"),
                            ("hour", "per hour"),
                            ("day", "per day"),
                        ],
                        db_default="",
                        default="",
                        max_length=6,
                    ),
                ),
                (
                    "bytes_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(2147483647),
                        ],
                    ),
                ),
                (
                    "total_open_requests",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "total_starts",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "total_period",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("second", "per second"),
                            ("minute", "per minute"),
                            ("hour", "per hour"),
                            ("day", "per day"),
                        ],
                        db_default="",
                        default="",
                        max_length=6,
                    ),
                ),
                (
                    "total_bytes_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(2147483647),
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                ("version", models.PositiveBigIntegerField(db_default=1, default=1, editable=False)),
                (
                    "changed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "open_requests",
                    models.PositiveIntegerField(
                        default=2,
                        help_text="Requests that may be open to one host at the same time.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                    ),
                ),
                (
                    "min_gap",
                    models.FloatField(
                        default=1.0,
                        help_text="Seconds between the starts of two requests to one host.",
                        validators=[
                            django.core.validators.MinValueValidator(0.0),
                            django.core.validators.MaxValueValidator(86400.0),
                        ],
                    ),
                ),
                ("applies_everywhere", models.BooleanField(db_default=False, default=False)),
                ("per_address", models.BooleanField(db_default=False, default=False)),
                (
                    "skips_loopback",
                    models.BooleanField(default=False, help_text="Skip the gap for hosts of loopback addresses."),
                ),
                ("time_zone", models.CharField(db_default="UTC", default="UTC", max_length=60)),
            ],
            options={
                "verbose_name_plural": "throttle policies",
                "ordering": ("name",),
                "permissions": (("limit_everywhere", "Can limit every bin of the cluster, and deny bins"),),
                "indexes": [
                    models.Index(
                        condition=models.Q(("applies_everywhere", True)), fields=["id"], name="policy_everywhere"
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        nodes.models.word_search.Words("name"), name="policy_words"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("open_requests__gte", 1)), name="policy_opens_a_request"
                    ),
                    models.CheckConstraint(condition=models.Q(("min_gap__gte", 0)), name="policy_gap_is_a_duration"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("period", ""), ("starts__isnull", True)),
                            models.Q(
                                ("starts__gte", 1), ("starts__isnull", False), models.Q(("period", ""), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="policy_rate_is_whole",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("total_period", ""), ("total_starts__isnull", True)),
                            models.Q(
                                ("total_starts__gte", 1),
                                ("total_starts__isnull", False),
                                models.Q(("total_period", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="policy_total_is_whole",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("bytes_per_second", 0), _negated=True),
                            models.Q(("total_open_requests", 0), _negated=True),
                            models.Q(("total_bytes_per_second", 0), _negated=True),
                        ),
                        name="policy_limits_are_null_or_positive",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("specification", models.JSONField(blank=True, default=dict)),
                ("pipeline", models.JSONField(blank=True, db_default={}, default=dict)),
                ("specification_version", models.PositiveIntegerField(default=1)),
                ("revision", models.PositiveIntegerField(db_default=1, default=1, editable=False)),
                (
                    "max_documents",
                    models.PositiveBigIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                (
                    "priority",
                    models.PositiveSmallIntegerField(
                        default=5,
                        help_text="If jobs compete for one host, 1 is served first and 10 last.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10),
                        ],
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("once", "once"), ("continuous", "continuous")],
                        default=jobs.lifecycle.job.Kind["ONCE"],
                        max_length=10,
                    ),
                ),
                ("recrawl_after", models.DurationField(blank=True, null=True)),
                ("recrawl_at_most", models.DurationField(blank=True, null=True)),
                ("expire_after", models.DurationField(blank=True, null=True)),
                ("reseed_after", models.DurationField(blank=True, null=True)),
                (
                    "hop_mode",
                    models.CharField(
                        choices=[
                            ("accurate", "accurate"),
                            ("no_delete", "no delete"),
                            ("never_delete", "never delete"),
                        ],
                        default=jobs.lifecycle.job.HopMode["ACCURATE"],
                        max_length=15,
                    ),
                ),
                ("hop_limits", models.JSONField(blank=True, default=dict)),
                ("carries", models.BooleanField(default=False, editable=False)),
                (
                    "guard_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        db_default=5,
                        default=5,
                        null=True,
                        validators=[django.core.validators.MaxValueValidator(100)],
                    ),
                ),
                (
                    "guard_host_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        db_default=50,
                        default=50,
                        null=True,
                        validators=[django.core.validators.MaxValueValidator(100)],
                    ),
                ),
                ("guard_documents", models.PositiveIntegerField(db_default=20, default=20)),
                ("guard_seeds", models.BooleanField(db_default=True, default=True)),
                (
                    "access_rules",
                    models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list),
                ),
                (
                    "freshness_goals",
                    models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list),
                ),
                (
                    "archive",
                    models.CharField(
                        blank=True,
                        choices=[("", "no archive"), ("warc", "WARC"), ("barc", "BARC")],
                        db_default="",
                        default="",
                        help_text="Format in which raw requests and responses are kept.",
                        max_length=10,
                    ),
                ),
                ("surplus_versions_after", models.UUIDField(editable=False, null=True)),
                (
                    "kept_versions",
                    models.PositiveSmallIntegerField(
                        db_default=0, default=0, validators=[django.core.validators.MaxValueValidator(100)]
                    ),
                ),
                (
                    "start_method",
                    models.CharField(
                        choices=[
                            ("manual", "manual"),
                            ("window_begin", "window begin"),
                            ("window_inside", "window inside"),
                        ],
                        default=jobs.lifecycle.job.StartMethod["MANUAL"],
                        max_length=15,
                    ),
                ),
                ("node_scope", models.CharField(db_index=True, default="cluster", max_length=100)),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("inactive", "inactive"),
                            ("ready_for_startup", "ready for startup"),
                            ("starting_up", "starting up"),
                            ("active", "active"),
                            ("shutting_down", "shutting down"),
                            ("ready_for_notify", "ready for notify"),
                            ("notifying", "notifying"),
                            ("ready_for_delete", "ready for delete"),
                            ("delete_starting_up", "delete starting up"),
                            ("deleting", "deleting"),
                            ("ready_for_delete_notify", "ready for delete notify"),
                            ("notifying_of_deletion", "notifying of deletion"),
                        ],
                        default=jobs.lifecycle.job.Phase["INACTIVE"],
                        max_length=30,
                    ),
                ),
                (
                    "pause",
                    models.CharField(
                        choices=[("no", "no"), ("pausing", "pausing"), ("paused", "paused")],
                        default=jobs.lifecycle.job.Pause["NO"],
                        max_length=10,
                    ),
                ),
                (
                    "window",
                    models.CharField(
                        choices=[("inside", "inside"), ("waiting", "waiting"), ("outside", "outside")],
                        default=jobs.lifecycle.job.Window["INSIDE"],
                        max_length=10,
                    ),
                ),
                (
                    "stop_request",
                    models.CharField(
                        choices=[("none", "none"), ("abort", "abort"), ("restart", "restart")],
                        default=jobs.lifecycle.job.StopRequest["NONE"],
                        max_length=10,
                    ),
                ),
                ("resuming", models.BooleanField(default=False)),
                ("seeding", models.BooleanField(default=False)),
                ("minimal", models.BooleanField(default=False)),
                ("connectors_ready", models.BooleanField(default=True)),
                (
                    "guard",
                    models.CharField(
                        choices=[("no", "no"), ("waiting", "waiting"), ("allowed", "allowed")],
                        db_default=jobs.lifecycle.job.Guard["NO"],
                        default=jobs.lifecycle.job.Guard["NO"],
                        max_length=10,
                    ),
                ),
                ("run_no", models.PositiveIntegerField(default=0)),
                (
                    "scan",
                    models.CharField(
                        choices=[("full", "full"), ("recheck", "recheck"), ("changes", "changes")],
                        default=jobs.lifecycle.job.Scan["FULL"],
                        max_length=10,
                    ),
                ),
                ("from_the_beginning", models.BooleanField(default=True)),
                ("reseed_at", models.DateTimeField(blank=True, null=True)),
                ("ungrouped", models.PositiveIntegerField(db_default=1, default=1, editable=False)),
                ("unread", models.PositiveIntegerField(db_default=1, default=1, editable=False)),
                ("window_ends_at", models.DateTimeField(blank=True, null=True)),
                ("schedule_checked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("schedule_due_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("missed_window_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("schedule_paused_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "schedule_paused_by",
                    models.CharField(blank=True, db_default="", default="", editable=False, max_length=200),
                ),
                ("failures", models.PositiveSmallIntegerField(default=0)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("retry_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "run_end",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("finished", "finished"),
                            ("held", "held"),
                            ("document_limit", "document limit"),
                            ("aborted", "aborted"),
                            ("error", "error"),
                        ],
                        max_length=20,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("archive_hold", models.TextField(blank=True, db_default="", default="", editable=False)),
                ("archive_held_since", models.DateTimeField(blank=True, editable=False, null=True)),
                ("move_hold", models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("name",),
                "permissions": (("control_job", "Can start, pause, resume and abort jobs"),),
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(nodes.models.word_search.Words("name"), name="job_words"),
                    models.Index(
                        condition=models.Q(("phase", jobs.lifecycle.job.Phase["INACTIVE"]), _negated=True),
                        fields=["id"],
                        name="job_running",
                    ),
                    models.Index(
                        models.OrderBy(
                            django.db.models.functions.comparison.Coalesce("started_at", "created_at"), descending=True
                        ),
                        models.F("id"),
                        condition=models.Q(("phase", jobs.lifecycle.job.Phase["INACTIVE"])),
                        name="job_latest",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(
                                ("phase", jobs.lifecycle.job.Phase["INACTIVE"]),
                                models.Q(("start_method", jobs.lifecycle.job.StartMethod["MANUAL"]), _negated=True),
                            ),
                            models.Q(
                                ("phase", jobs.lifecycle.job.Phase["ACTIVE"]),
                                models.Q(("window", jobs.lifecycle.job.Window["INSIDE"]), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        fields=["schedule_due_at"],
                        name="job_schedule_due",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("phase", jobs.lifecycle.job.Phase["ACTIVE"]), ("window_ends_at__isnull", False)
                        ),
                        fields=["window_ends_at"],
                        name="job_window_ends",
                    ),
                    models.Index(
                        condition=models.Q(("missed_window_at__isnull", False)),
                        fields=["missed_window_at"],
                        name="job_missed_window",
                    ),
                    models.Index(
                        condition=models.Q(("guard", jobs.lifecycle.job.Guard["WAITING"])),
                        fields=["id"],
                        name="job_waits_for_approval",
                    ),
                    models.Index(
                        condition=models.Q(("surplus_versions_after__isnull", False)),
                        fields=["id"],
                        name="job_has_surplus_versions",
                    ),
                    models.Index(
                        condition=models.Q(("connectors_ready", False)), fields=["id"], name="job_lacks_connector"
                    ),
                    models.Index(
                        condition=models.Q(
                            ("phase", jobs.lifecycle.job.Phase["ACTIVE"]),
                            models.Q(("pause", jobs.lifecycle.job.Pause["NO"]), _negated=True),
                        ),
                        fields=["id"],
                        name="job_paused",
                    ),
                    models.Index(
                        condition=models.Q(("archive_hold", ""), _negated=True),
                        fields=["id"],
                        name="job_waits_for_archive",
                    ),
                    models.Index(condition=models.Q(("move_hold__gt", 0)), fields=["id"], name="job_held_by_move"),
                    models.Index(
                        condition=models.Q(
                            models.Q(("phase", jobs.lifecycle.job.Phase["INACTIVE"]), _negated=True),
                            ("ungrouped__gt", 0),
                        ),
                        fields=["id"],
                        name="job_has_ungrouped",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("connectors_ready", True),
                            ("pause", jobs.lifecycle.job.Pause["NO"]),
                            ("phase", jobs.lifecycle.job.Phase["ACTIVE"]),
                            ("resuming", False),
                            ("seeding", False),
                            ("stop_request", jobs.lifecycle.job.StopRequest["NONE"]),
                            ("window", jobs.lifecycle.job.Window["INSIDE"]),
                            ("unread__gt", 0),
                        ),
                        fields=["id"],
                        name="job_has_unread",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("connectors_ready", True),
                            ("pause", jobs.lifecycle.job.Pause["NO"]),
                            ("phase", jobs.lifecycle.job.Phase["ACTIVE"]),
                            ("resuming", False),
                            ("seeding", False),
                            ("stop_request", jobs.lifecycle.job.StopRequest["NONE"]),
                            ("window", jobs.lifecycle.job.Window["INSIDE"]),
                            ("reseed_at__isnull", False),
                        ),
                        fields=["reseed_at"],
                        name="job_reseeds",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("phase", jobs.lifecycle.job.Phase["ACTIVE"]),
                            models.Q(
                                ("pause", jobs.lifecycle.job.Pause["NO"]),
                                ("resuming", False),
                                ("seeding", False),
                                ("window", jobs.lifecycle.job.Window["INSIDE"]),
                            ),
                            _connector="OR",
                        ),
                        name="job_pauses_only_while_active",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("pause", jobs.lifecycle.job.Pause["PAUSED"]),
                                ("window", jobs.lifecycle.job.Window["WAITING"]),
                                _negated=True,
                            ),
                            models.Q(
                                ("pause", jobs.lifecycle.job.Pause["PAUSING"]),
                                ("window", jobs.lifecycle.job.Window["OUTSIDE"]),
                                _negated=True,
                            ),
                        ),
                        name="job_drains_in_one_way_or_in_both",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("resuming", False),
                            models.Q(
                                ("pause", jobs.lifecycle.job.Pause["NO"]),
                                ("stop_request", jobs.lifecycle.job.StopRequest["NONE"]),
                                ("window", jobs.lifecycle.job.Window["INSIDE"]),
                            ),
                            _connector="OR",
                        ),
                        name="job_resumes_only_where_nothing_holds_it",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("stop_request", jobs.lifecycle.job.StopRequest["NONE"]),
                            (
                                "phase__in",
                                [
                                    jobs.lifecycle.job.Phase["READY_FOR_STARTUP"],
                                    jobs.lifecycle.job.Phase["STARTING_UP"],
                                    jobs.lifecycle.job.Phase["ACTIVE"],
                                    jobs.lifecycle.job.Phase["SHUTTING_DOWN"],
                                ],
                            ),
                            _connector="OR",
                        ),
                        name="job_stops_only_while_it_runs",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("guard", jobs.lifecycle.job.Guard["WAITING"]), _negated=True),
                            (
                                "phase__in",
                                [
                                    jobs.lifecycle.job.Phase["READY_FOR_NOTIFY"],
                                    jobs.lifecycle.job.Phase["NOTIFYING"],
                                    jobs.lifecycle.job.Phase["INACTIVE"],
                                ],
                            ),
                            _connector="OR",
                        ),
                        name="job_waits_for_approval_only_at_its_end",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind", jobs.lifecycle.job.Kind["CONTINUOUS"]),
                            models.Q(
                                ("expire_after__isnull", True),
                                ("recrawl_after__isnull", True),
                                ("recrawl_at_most__isnull", True),
                                ("reseed_after__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="job_recurs_only_if_continuous",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("recrawl_at_most__isnull", True),
                            models.Q(
                                ("recrawl_after__isnull", False), ("recrawl_at_most__gte", models.F("recrawl_after"))
                            ),
                            _connector="OR",
                        ),
                        name="job_recrawls_in_order",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("recrawl_after__isnull", True),
                            ("recrawl_after__gt", datetime.timedelta(0)),
                            _connector="OR",
                        ),
                        name="job_recrawl_after_is_a_time_span",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("recrawl_at_most__isnull", True),
                            ("recrawl_at_most__gt", datetime.timedelta(0)),
                            _connector="OR",
                        ),
                        name="job_recrawl_at_most_is_a_time_span",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expire_after__isnull", True), ("expire_after__gt", datetime.timedelta(0)), _connector="OR"
                        ),
                        name="job_expire_after_is_a_time_span",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("reseed_after__isnull", True), ("reseed_after__gt", datetime.timedelta(0)), _connector="OR"
                        ),
                        name="job_reseed_after_is_a_time_span",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeletedJob",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("run_no", models.PositiveIntegerField()),
                ("deleted_at", models.DateTimeField(db_index=True)),
                ("rows", models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name="EvidenceChain",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.TextField(unique=True)),
                ("seq", models.BigIntegerField(db_default=0, default=0)),
                (
                    "hash",
                    models.CharField(
                        db_default="0000000000000000000000000000000000000000000000000000000000000000",
                        default="0000000000000000000000000000000000000000000000000000000000000000",
                        max_length=64,
                    ),
                ),
                ("pruned_seq", models.BigIntegerField(db_default=0, default=0)),
                (
                    "pruned_hash",
                    models.CharField(
                        db_default="0000000000000000000000000000000000000000000000000000000000000000",
                        default="0000000000000000000000000000000000000000000000000000000000000000",
                        max_length=64,
                    ),
                ),
                ("pruned_at", models.DateTimeField(null=True)),
                ("complete_until", models.DateTimeField(null=True)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="EvidenceRecorder",
            fields=[
                ("worker", models.UUIDField(primary_key=True, serialize=False)),
                ("since", models.DateTimeField()),
                ("complete_until", models.DateTimeField()),
                ("reported_all", models.BooleanField(default=False)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="InvariantCheck",
            fields=[
                (
                    "name",
                    models.SlugField(
                        choices=[
                            ("owners", "Each group of seeds is owned by one running manager"),
                            ("claims", "Each claimed document is in one open batch"),
                            ("workers", "Each open batch belongs to a running worker"),
                            ("places", "The open requests of each host match their counter"),
                            ("counts", "Counts of documents match their rows (a sample)"),
                        ],
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("checked_at", models.DateTimeField()),
                ("found", models.IntegerField(null=True)),
                ("example", models.TextField(blank=True, default="")),
                ("seconds", models.FloatField()),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
        ),
        migrations.CreateModel(
            name="LowWaterMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("batch", models.BigIntegerField()),
                ("turn", models.BigIntegerField()),
                ("delta", models.BigIntegerField()),
                ("next_batch", models.BigIntegerField()),
                ("next_turn", models.BigIntegerField()),
                ("next_delta", models.BigIntegerField()),
                ("next_since", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="PastRobots",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "origin", "last_read_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("origin", models.TextField()),
                ("last_read_at", models.DateTimeField()),
                ("replaced_at", models.DateTimeField()),
                ("answer", models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name="Robots",
            fields=[
                ("origin", models.TextField(primary_key=True, serialize=False)),
                ("answer", models.JSONField()),
                ("fetched_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_no", models.PositiveIntegerField()),
                ("started_at", models.DateTimeField()),
                ("started_by", models.CharField(blank=True, max_length=200)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "run_end",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("finished", "finished"),
                            ("held", "held"),
                            ("document_limit", "document_limit"),
                            ("aborted", "aborted"),
                            ("error", "error"),
                        ],
                        max_length=20,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("indexed", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("unchanged", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("failed", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("excluded", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("deleted", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("bytes", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("has_differences", models.BooleanField(db_default=False, default=False)),
            ],
            options={
                "ordering": ("-started_at", "-id"),
                "indexes": [
                    models.Index(fields=["-started_at", "-id"], name="run_newest"),
                    models.Index(fields=["run_end", "-started_at", "-id"], name="run_by_end"),
                    models.Index(
                        condition=models.Q(
                            ("run_end", jobs.lifecycle.job.RunEnd["ERROR"]),
                            models.Q(("excluded", 0), ("failed__gt", 0), ("indexed", 0), ("unchanged", 0)),
                            _connector="OR",
                        ),
                        fields=["ended_at"],
                        name="run_failed",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WebmasterLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.CharField(max_length=300, unique=True)),
                (
                    "gap",
                    models.FloatField(
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1.0),
                            django.core.validators.MaxValueValidator(86400.0),
                        ],
                    ),
                ),
                ("proof", models.CharField(choices=[("dns", "Dns"), ("file", "File")], max_length=4)),
                ("token", models.CharField(max_length=64)),
                ("proved_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="ArchiveFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("node_id", models.UUIDField()),
                ("host", models.TextField()),
                ("root", models.TextField()),
                ("path", models.TextField()),
                ("format", models.CharField(choices=[("warc", "warc"), ("barc", "barc")], max_length=10)),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "open"), ("complete", "complete"), ("stored", "stored"), ("lost", "lost")],
                        default=jobs.models.archive.FileState["OPEN"],
                        max_length=10,
                    ),
                ),
                ("length", models.PositiveBigIntegerField(default=0)),
                ("sha256", models.CharField(blank=True, default="", max_length=64)),
                ("stores", models.JSONField(default=dict)),
                ("problem", models.TextField(blank=True, default="")),
                ("surplus", models.PositiveIntegerField(db_default=0, default=0)),
                ("opened_at", models.DateTimeField()),
                ("completed_at", models.DateTimeField(null=True)),
                ("removed_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job_id", "id"], name="archive_of_job"),
                    models.Index(
                        condition=models.Q(
                            ("removed_at__isnull", True),
                            models.Q(("state", jobs.models.archive.FileState["LOST"]), _negated=True),
                        ),
                        fields=["host", "id"],
                        name="archive_is_local",
                    ),
                    models.Index(
                        condition=models.Q(("state", jobs.models.archive.FileState["COMPLETE"])),
                        fields=["host", "id"],
                        name="archive_is_complete",
                    ),
                    models.Index(
                        condition=models.Q(("sha256", ""), ("state", jobs.models.archive.FileState["COMPLETE"])),
                        fields=["host"],
                        name="archive_lacks_checksum",
                    ),
                    models.Index(
                        condition=models.Q(("state", jobs.models.archive.FileState["LOST"])),
                        fields=["id"],
                        name="archive_is_lost",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Batch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node_scope", models.CharField(max_length=100)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("process", "Process"),
                            ("expire", "Expire"),
                            ("clean", "Clean"),
                            ("delete", "Delete"),
                        ],
                        default="process",
                        max_length=10,
                    ),
                ),
                ("preferred", models.UUIDField(null=True)),
                ("tag", models.CharField(db_default="", default="", max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("available", "Available"),
                            ("sent", "Sent"),
                            ("done", "Done"),
                            ("released", "Released"),
                        ],
                        default="available",
                        max_length=10,
                    ),
                ),
                ("documents", models.IntegerField()),
                ("created_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(null=True)),
                (
                    "manager",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="nodes.node",
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="nodes.node",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "batches",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "available")), fields=["node_scope", "id"], name="batch_available"
                    ),
                    models.Index(condition=models.Q(("state", "sent")), fields=["id"], name="batch_sent"),
                    models.Index(
                        condition=models.Q(("state", "sent")), fields=["worker_id", "id"], name="batch_of_worker"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Bin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.CharField(max_length=20)),
                ("name", models.TextField()),
                ("address", models.CharField(db_default="", default="", max_length=64)),
                ("back_off_until", models.DateTimeField(null=True)),
                ("back_off_level", models.SmallIntegerField(db_default=0, default=0)),
                ("backing_off_since", models.DateTimeField(null=True)),
                ("interval", models.FloatField(default=0.0)),
                ("is_known", models.BooleanField(default=False)),
                ("usual_requests", models.IntegerField(db_default=2, default=2)),
                ("usual_gap", models.FloatField(db_default=1.0, default=1.0)),
                ("stopped_at", models.DateTimeField(null=True)),
                ("stopped_by", models.CharField(db_default="", default="", max_length=150)),
                ("stopped_why", models.TextField(db_default="", default="")),
                ("stops_every_port", models.BooleanField(db_default=False, default=False)),
                (
                    "parent",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="children",
                        to="jobs.bin",
                    ),
                ),
            ],
            options={
                "permissions": (("stop_bin", "Can stop and deny hosts, and release them"),),
                "indexes": [
                    models.Index(
                        django.db.models.functions.comparison.Collate("name", "C"),
                        models.F("id"),
                        condition=models.Q(("namespace__in", ["address", "policy"]), _negated=True),
                        name="bin_by_name",
                    ),
                    models.Index(condition=models.Q(("stopped_at__isnull", False)), fields=["id"], name="bin_stopped"),
                    models.Index(condition=models.Q(("back_off_level__gt", 0)), fields=["id"], name="bin_backing_off"),
                ],
                "constraints": [models.UniqueConstraint(fields=("namespace", "name"), name="one_bin_a_name")],
            },
        ),
        migrations.CreateModel(
            name="BinHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "bin_id", "hour", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hour", models.DateTimeField(db_index=True)),
                ("starts", models.BigIntegerField()),
                ("bytes_read", models.BigIntegerField()),
                ("gap", models.FloatField()),
                ("bytes_per_second", models.FloatField(null=True)),
                (
                    "bin",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.bin",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BinPlacing",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="jobs.throttlepolicy",
                    ),
                ),
                ("after", models.BigIntegerField(db_default=0, default=0)),
            ],
        ),
        migrations.CreateModel(
            name="PolicyShare",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="share",
                        serialize=False,
                        to="jobs.throttlepolicy",
                    ),
                ),
                ("parts", models.PositiveIntegerField()),
                ("of", models.PositiveIntegerField()),
                ("number", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("version", models.PositiveBigIntegerField(db_default=1, default=1)),
                ("lowered_at", models.DateTimeField(null=True)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("of__gte", 1), ("parts__lte", models.F("of"))), name="share_is_a_part"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="BinState",
            fields=[
                ("version", models.BigIntegerField(db_default=0, default=0)),
                ("not_before", models.DateTimeField(null=True)),
                ("paid_rate", models.FloatField(null=True)),
                ("last_start_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("open_turns", models.IntegerField(db_default=0, default=0)),
                ("open_requests", models.IntegerField(db_default=0, default=0)),
                ("starts", models.BigIntegerField(db_default=0, default=0)),
                ("bytes_read", models.BigIntegerField(db_default=0, default=0)),
                ("answer_seconds", models.FloatField(null=True)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "bin_id", "version", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "bin",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="states",
                        to="jobs.bin",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="budget",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("run_no", models.PositiveIntegerField()),
                ("most", models.PositiveBigIntegerField()),
                ("admitted", models.PositiveBigIntegerField(default=0)),
                ("total", models.PositiveBigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="PartitionedJob",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="partitioned",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("number", models.BigIntegerField(unique=True)),
                ("may_finish_run", models.PositiveIntegerField(db_default=0, default=0)),
                ("others_ended_run", models.PositiveIntegerField(db_default=0, default=0)),
                ("ends_at_limit_run", models.PositiveIntegerField(db_default=0, default=0)),
                ("removals", models.JSONField(null=True)),
                ("decided_run", models.PositiveIntegerField(db_default=0, default=0)),
                ("held_run", models.PositiveIntegerField(db_default=0, default=0)),
                ("round_no", models.PositiveIntegerField(db_default=0, default=0)),
                ("last_round", models.JSONField(null=True)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="RemovalQuestion",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="removal_question",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("run_no", models.PositiveIntegerField()),
                ("asked_at", models.DateTimeField()),
                ("leaving", models.PositiveBigIntegerField()),
                ("staying", models.PositiveBigIntegerField()),
                ("cause", models.TextField()),
                ("hosts", models.JSONField(default=list)),
                ("parents", models.JSONField(default=list)),
                ("seeds", models.JSONField(default=list)),
                ("examples", models.JSONField(default=list)),
            ],
        ),
        migrations.AddField(
            model_name="throttlepolicy",
            name="private_to",
            field=models.ForeignKey(
                blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"
            ),
        ),
        migrations.CreateModel(
            name="BinLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "bin",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="limits", to="jobs.bin"
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.throttlepolicy"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("bin", "policy", "job"), name="one_limit_a_bin_policy_and_job")
                ],
            },
        ),
        migrations.CreateModel(
            name="AddressBlock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("documents", models.SmallIntegerField()),
                ("hashes", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("addresses", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("grams", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [django.contrib.postgres.indexes.GinIndex(fields=["grams"], name="block_by_grams")],
            },
        ),
        migrations.CreateModel(
            name="CarryDown",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_id", "child", "parent", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("child", models.UUIDField()),
                ("parent", models.UUIDField()),
                ("carried", models.JSONField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["job", "parent"], name="carried_by")],
            },
        ),
        migrations.CreateModel(
            name="ChainedStart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("predecessor_id", models.BigIntegerField()),
                ("predecessor_name", models.CharField(max_length=200)),
                ("run_no", models.PositiveIntegerField()),
                ("overlap", models.CharField(max_length=10)),
                ("at", models.DateTimeField()),
                ("waits", models.BooleanField(db_default=False, default=False)),
                (
                    "successor",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"),
                ),
            ],
            options={
                "ordering": ("id",),
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("predecessor_id", "run_no", "successor"), name="one_start_an_end_of_a_run"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Charge",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subject", models.PositiveSmallIntegerField(choices=[(0, "All"), (1, "Job"), (2, "Host")])),
                ("subject_id", models.BigIntegerField()),
                ("step", models.PositiveSmallIntegerField()),
                ("at", models.DateTimeField()),
                ("cause", models.CharField(max_length=20)),
                ("seconds", models.FloatField()),
            ],
            options={
                "indexes": [models.Index(fields=["step", "at"], name="charge_oldest")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("subject", "subject_id", "step", "at", "cause"), name="one_charge_a_step"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ClusterMinute",
            fields=[
                ("at", models.DateTimeField(primary_key=True, serialize=False)),
                ("is_whole", models.BooleanField()),
                ("facts", models.TextField()),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(condition=models.Q(("is_whole", True)), fields=["-at"], name="cluster_minute_whole")
                ],
            },
        ),
        migrations.CreateModel(
            name="Counter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("run_no", models.IntegerField()),
                ("measure", models.CharField(max_length=10)),
                ("stage", models.SmallIntegerField(default=0)),
                ("outcome", models.SmallIntegerField(default=0)),
                ("code", models.CharField(default="", max_length=30)),
                ("amount", models.BigIntegerField()),
                ("lane_id", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job_id", "run_no", "lane_id", "measure", "stage", "outcome", "code"),
                        name="one_counter_a_key",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CounterDelta",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("run_no", models.IntegerField()),
                ("measure", models.CharField(max_length=10)),
                ("stage", models.SmallIntegerField(default=0)),
                ("outcome", models.SmallIntegerField(default=0)),
                ("code", models.CharField(default="", max_length=30)),
                ("amount", models.BigIntegerField()),
                ("lane_id", models.BigIntegerField()),
                ("sample", models.UUIDField(null=True)),
                ("example", models.TextField(db_default="", default="")),
            ],
            options={
                "indexes": [models.Index(fields=["job_id", "id"], name="counter_delta_job")],
            },
        ),
        migrations.CreateModel(
            name="DefinitionVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "definition",
                    models.CharField(
                        choices=[
                            ("job", "job"),
                            ("policy", "policy"),
                            ("repository", "repository"),
                            ("output", "output"),
                        ],
                        max_length=20,
                    ),
                ),
                ("object_id", models.BigIntegerField()),
                ("number", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=400)),
                ("at", models.DateTimeField()),
                ("made_by", models.CharField(max_length=200)),
                ("document", models.JSONField()),
                ("changes", models.JSONField(default=dict)),
                ("restores", models.PositiveIntegerField(null=True)),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["definition", "object_id", "-id"], name="version_newest"),
                    models.Index(fields=["at"], name="version_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("definition", "object_id", "number"), name="one_version_a_number")
                ],
            },
        ),
        migrations.CreateModel(
            name="DenialReason",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pattern", models.CharField(max_length=300)),
                ("reason", models.TextField()),
                ("denied_by", models.CharField(max_length=150)),
                ("denied_at", models.DateTimeField()),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.throttlepolicy",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("policy", "pattern"), name="one_reason_a_denial")],
            },
        ),
        migrations.CreateModel(
            name="DocumentVersion",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "job_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("number", models.IntegerField()),
                ("fetched_at", models.DateTimeField()),
                ("run_no", models.IntegerField()),
                ("code", models.CharField(max_length=30)),
                ("headers", models.TextField()),
                ("text", models.BinaryField()),
                ("length", models.IntegerField()),
                ("is_cut", models.BooleanField()),
                ("digest", models.UUIDField()),
                ("access", models.JSONField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="EvidenceBlock",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "chain_id", "seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("seq", models.BigIntegerField()),
                ("minute", models.DateTimeField()),
                ("content", models.TextField()),
                ("hash", models.CharField(max_length=64)),
                ("appended_at", models.DateTimeField()),
                (
                    "chain",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="blocks",
                        to="jobs.evidencechain",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["chain", "minute"], name="evidence_of_minute")],
            },
        ),
        migrations.CreateModel(
            name="EvidenceReport",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("worker", models.UUIDField()),
                ("number", models.IntegerField()),
                ("host", models.TextField()),
                ("minute", models.DateTimeField()),
                ("facts", models.TextField()),
                ("chained_at", models.DateTimeField(null=True)),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("chained_at", None)), fields=["minute", "host"], name="evidence_to_chain"
                    ),
                    models.Index(
                        condition=models.Q(("chained_at__isnull", False)),
                        fields=["chained_at"],
                        name="evidence_chained",
                    ),
                ],
                "constraints": [models.UniqueConstraint(fields=("worker", "number"), name="one_evidence_report")],
            },
        ),
        migrations.CreateModel(
            name="FailingStore",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.TextField()),
                ("store", models.TextField()),
                ("failing_since", models.DateTimeField()),
                ("tried_at", models.DateTimeField()),
                ("problem", models.TextField()),
            ],
            options={
                "ordering": ("store", "host"),
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("store", "host"), name="one_failure_a_store_and_machine")
                ],
            },
        ),
        migrations.CreateModel(
            name="FailureGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.CharField(max_length=30)),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("times", models.BigIntegerField()),
                ("sample", models.UUIDField()),
                (
                    "bin",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.bin",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-last_at", "-id"], name="failure_group_newest"),
                    models.Index(fields=["job", "-last_at", "-id"], name="failure_group_of_job"),
                    models.Index(fields=["code", "-last_at", "-id"], name="failure_group_of_code"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "bin", "code"), name="one_failure_group_a_cause")
                ],
            },
        ),
        migrations.CreateModel(
            name="FailureHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "group_id", "hour", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hour", models.DateTimeField(db_index=True)),
                ("times", models.BigIntegerField()),
                (
                    "group",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.failuregroup",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ForeignReference",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "source", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("source", models.CharField(max_length=31)),
                ("number", models.BigIntegerField()),
                ("target", models.CharField(max_length=31)),
                ("job_number", models.BigIntegerField()),
                ("run_no", models.IntegerField()),
                ("hash", models.UUIDField()),
                ("identifier", models.TextField()),
                ("bin", models.TextField()),
                ("seed", models.UUIDField()),
                ("depth", models.IntegerField()),
                ("redirects", models.SmallIntegerField()),
                ("found_on", models.UUIDField()),
                ("tracks_depth", models.BooleanField()),
                (
                    "edges",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=2),
                        db_default=[],
                        default=list,
                        size=None,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["job_number", "run_no", "target"], name="foreign_reference_of_run")],
            },
        ),
        migrations.CreateModel(
            name="Gate",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("key", models.UUIDField()),
                ("closed_at", models.DateTimeField()),
                (
                    "node",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="nodes.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GatedDocument",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "job_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                (
                    "gate",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.gate",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GoalTotal",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_id", "goals", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("goals", models.CharField(max_length=16)),
                ("number", models.SmallIntegerField()),
                ("documents", models.FloatField(db_default=0.0, default=0.0)),
                ("fresh", models.FloatField(db_default=0.0, default=0.0)),
                ("expected", models.FloatField(db_default=0.0, default=0.0)),
                ("needs", models.FloatField(db_default=0.0, default=0.0)),
                ("gets", models.FloatField(db_default=0.0, default=0.0)),
                ("measured_at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="HopCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_id", "hash", "link_type", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("link_type", models.TextField()),
                ("distance", models.IntegerField()),
                ("via", models.UUIDField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["job", "via"], name="hop_count_via")],
            },
        ),
        migrations.CreateModel(
            name="JobChain",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "overlap",
                    models.CharField(
                        choices=[("skip", "skip"), ("queue", "queue"), ("replace", "replace")],
                        db_default="skip",
                        default=jobs.lifecycle.job.Overlap["SKIP"],
                        max_length=10,
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.CharField(max_length=200)),
                (
                    "predecessor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="next_in_chain", to="jobs.job"
                    ),
                ),
                (
                    "successor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="previous_in_chain", to="jobs.job"
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("predecessor", "successor"), name="one_chain_a_pair_of_jobs"),
                    models.CheckConstraint(
                        condition=models.Q(("predecessor", models.F("successor")), _negated=True),
                        name="job_does_not_follow_itself",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobCounter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("run_no", models.IntegerField()),
                ("measure", models.CharField(max_length=10)),
                ("stage", models.SmallIntegerField(default=0)),
                ("outcome", models.SmallIntegerField(default=0)),
                ("code", models.CharField(default="", max_length=30)),
                ("amount", models.BigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["stage", "outcome", "code"], name="job_counter_of_endings")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job_id", "run_no", "measure", "stage", "outcome", "code"),
                        name="one_counter_a_key_and_job",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="JobEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_name", models.CharField(max_length=200)),
                ("at", models.DateTimeField()),
                ("kind", models.CharField(max_length=40)),
                ("made_by", models.CharField(max_length=200)),
                ("message", models.TextField()),
                ("detail", models.JSONField(default=dict)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="events",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [models.Index(fields=["job", "-id"], name="job_event_newest")],
            },
        ),
        migrations.CreateModel(
            name="LanePlan",
            fields=[
                (
                    "lane",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="jobs.lane",
                    ),
                ),
                ("goals", models.CharField(db_default="", default="", max_length=16)),
                ("plan", models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict)),
                ("allows", models.FloatField(null=True)),
                ("host_needs", models.FloatField(db_default=0.0, default=0.0)),
                ("host_others", models.FloatField(db_default=0.0, default=0.0)),
                ("lacks", models.FloatField(db_default=0.0, default=0.0)),
                ("since", models.DateTimeField()),
                ("priced_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField()),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["due_at"], name="lane_plan_due")],
            },
        ),
        migrations.AddField(
            model_name="lane",
            name="bin",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="lanes", to="jobs.bin"),
        ),
        migrations.CreateModel(
            name="ChangeRate",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lane_id", "hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("looked_at", models.DateTimeField()),
                ("evidence", models.BinaryField()),
                (
                    "lane",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.lane",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Link",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_id",
                        "source",
                        "target",
                        "link_type",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("source", models.UUIDField()),
                ("target", models.UUIDField()),
                ("link_type", models.TextField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["job", "target"], name="link_target")],
            },
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(_NEW_ADDRESSES, "DROP TABLE jobs_newaddress")],
            state_operations=[
                migrations.CreateModel(
                    name="NewAddress",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "job_id", "hash", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("hash", models.UUIDField()),
                        ("address", models.TextField()),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="jobs.job",
                            ),
                        ),
                    ],
                ),
            ],
        ),
        migrations.CreateModel(
            name="OutLinks",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "job_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("targets", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("is_redirect", models.BooleanField(default=False)),
                (
                    "lost",
                    django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), null=True, size=None),
                ),
                ("is_replaced", models.BooleanField(db_default=False, default=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("lost__isnull", False)), fields=["job"], name="links_were_lost")
                ],
            },
        ),
        migrations.CreateModel(
            name="OutputConnection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=400, unique=True)),
                ("connector", models.SlugField()),
                ("configuration", models.JSONField(blank=True, default=dict)),
                ("is_confined", models.BooleanField(db_default=False, default=False, editable=False)),
                ("trusted_from", models.DateTimeField(blank=True, editable=False, null=True)),
                ("clear_before", models.DateTimeField(blank=True, editable=False, null=True)),
                ("orphans_after", models.UUIDField(blank=True, editable=False, null=True)),
                ("clearing_refused", models.TextField(blank=True, editable=False)),
            ],
            options={
                "ordering": ("name",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("clear_before__isnull", False)), fields=["id"], name="output_is_cleared"
                    ),
                    models.Index(
                        condition=models.Q(("orphans_after__isnull", False)), fields=["id"], name="output_is_searched"
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        nodes.models.word_search.Words("name"), name="output_words"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("notified_at", models.DateTimeField(null=True)),
                ("refused", models.TextField(blank=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notifications", to="jobs.job"
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="nodes.node"
                    ),
                ),
                (
                    "output",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.outputconnection"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("job", "output"), name="one_notification_a_job_and_output")
                ],
            },
        ),
        migrations.CreateModel(
            name="LostLines",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("machine", models.CharField(max_length=255)),
                ("noticed_at", models.DateTimeField()),
                ("was_bytes", models.BigIntegerField()),
                ("is_bytes", models.BigIntegerField()),
                (
                    "output",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lost_lines",
                        to="jobs.outputconnection",
                    ),
                ),
            ],
            options={
                "ordering": ("machine",),
                "constraints": [models.UniqueConstraint(fields=("output", "machine"), name="one_loss_a_machine")],
            },
        ),
        migrations.AddField(
            model_name="job",
            name="outputs",
            field=models.ManyToManyField(related_name="jobs", to="jobs.outputconnection"),
        ),
        migrations.CreateModel(
            name="IndexedDocument",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "output_id", "hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("version", models.TextField()),
                ("indexed_at", models.DateTimeField()),
                ("read_version", models.TextField(db_default="", default="")),
                ("parent", models.UUIDField(null=True)),
                ("part", models.TextField(db_default="", default="")),
                (
                    "output",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.outputconnection",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("parent__isnull", False)),
                        fields=["parent", "output"],
                        name="record_of_part",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="OutputVerification",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "task",
                    models.BigIntegerField(null=True, unique=True, verbose_name="background task, null for a command"),
                ),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_by", models.TextField()),
                (
                    "moved_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="last sign of life"
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                ("refused", models.TextField(db_default="", default="", verbose_name="why the last attempt failed")),
                ("repairs", models.BooleanField(db_default=False, default=False)),
                ("attempt", models.IntegerField(db_default=0, default=0)),
                ("compared_at", models.DateTimeField(null=True)),
                (
                    "buckets",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(), null=True, size=None
                    ),
                ),
                ("most", models.IntegerField(null=True, verbose_name="most repairs")),
                ("allows_removals", models.BooleanField(db_default=False, default=False)),
                ("cursor", models.UUIDField(null=True)),
                ("documents", models.BigIntegerField(db_default=0, default=0, verbose_name="documents read")),
                ("missing", models.BigIntegerField(db_default=0, default=0)),
                ("ghost", models.BigIntegerField(db_default=0, default=0)),
                ("stale", models.BigIntegerField(db_default=0, default=0)),
                ("damaged", models.BigIntegerField(db_default=0, default=0, verbose_name="damaged entries")),
                (
                    "skipped",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="documents that a batch had claimed"),
                ),
                ("repaired", models.BigIntegerField(db_default=0, default=0)),
                ("question", models.TextField(db_default="", default="", verbose_name="why ghosts were not removed")),
                (
                    "output",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="verifications",
                        to="jobs.outputconnection",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["output", "-id"], name="verification_of_output")],
            },
        ),
        migrations.CreateModel(
            name="OutputFault",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("missing", "missing"), ("ghost", "ghost"), ("stale", "stale")], max_length=10
                    ),
                ),
                ("hash", models.UUIDField()),
                ("identifier", models.TextField()),
                ("result", models.CharField(db_default="", default="", max_length=20)),
                (
                    "verification",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="found",
                        to="jobs.outputverification",
                    ),
                ),
            ],
            options={
                "ordering": ("hash",),
                "default_permissions": ("view",),
                "constraints": [models.UniqueConstraint(fields=("verification", "hash"), name="one_fault_a_document")],
            },
        ),
        migrations.CreateModel(
            name="PartitionFact",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "source", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("source", models.CharField(max_length=31)),
                ("number", models.BigIntegerField()),
                ("target", models.CharField(max_length=31)),
                ("key", models.TextField()),
                ("body", models.JSONField()),
                ("sent_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["source", "target", "key", "-number"], name="fact_newest")],
            },
        ),
        migrations.CreateModel(
            name="PipelineRefusal",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_id", "hash", "output_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("version", models.TextField()),
                ("stage", models.CharField(max_length=100)),
                ("code", models.CharField(max_length=100)),
                ("reason", models.TextField()),
                ("refused_at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"
                    ),
                ),
                (
                    "output",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.outputconnection"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Progress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("step", models.PositiveSmallIntegerField()),
                ("at", models.DateTimeField()),
                ("documents", models.BigIntegerField(db_default=0, default=0)),
                ("bytes", models.BigIntegerField(db_default=0, default=0)),
                ("requests", models.BigIntegerField(db_default=0, default=0)),
                ("waiting", models.BigIntegerField(null=True)),
                ("active", models.BigIntegerField(null=True)),
                ("indexed", models.BigIntegerField(null=True)),
                ("unchanged", models.BigIntegerField(null=True)),
                ("failed", models.BigIntegerField(null=True)),
                ("excluded", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["step", "at"], name="progress_oldest")],
                "constraints": [models.UniqueConstraint(fields=("job_id", "step", "at"), name="one_progress_a_step")],
            },
        ),
        migrations.CreateModel(
            name="QueueItem",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "job_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("identifier", models.TextField()),
                (
                    "stage",
                    models.SmallIntegerField(
                        choices=[
                            (0, "pending"),
                            (1, "active"),
                            (2, "done"),
                            (3, "being_cleaned"),
                            (4, "being_deleted"),
                            (5, "hopcount_removed"),
                        ],
                        default=jobs.lifecycle.document.Stage["PENDING"],
                    ),
                ),
                ("indexed_before", models.BooleanField(default=False)),
                ("rescan", models.BooleanField(default=False)),
                ("run_no", models.IntegerField()),
                ("seq", models.BigIntegerField(null=True)),
                ("check_time", models.DateTimeField(null=True)),
                (
                    "action",
                    models.SmallIntegerField(
                        choices=[(0, "process"), (1, "expire"), (2, "leave")],
                        default=jobs.lifecycle.document.Action["PROCESS"],
                    ),
                ),
                ("version", models.TextField(db_default="", default="")),
                ("validators", models.TextField(db_default="", default="")),
                ("depth", models.IntegerField(default=0)),
                ("redirects", models.SmallIntegerField(db_default=0, default=0)),
                (
                    "outcome",
                    models.SmallIntegerField(
                        choices=[(0, "not ended"), (1, "indexed"), (2, "unchanged"), (3, "failed"), (4, "excluded")],
                        db_default=0,
                        default=0,
                    ),
                ),
                ("result_code", models.CharField(db_default="", default="", max_length=30)),
                ("failures", models.SmallIntegerField(db_default=0, default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("most_failures", models.IntegerField(null=True)),
                ("failing_until", models.DateTimeField(null=True)),
                ("failures_by_cause", models.JSONField(null=True)),
                ("losses", models.SmallIntegerField(db_default=0, default=0)),
                ("admitted_run", models.IntegerField(db_default=0, default=0)),
                ("fetched_at", models.DateTimeField(null=True)),
                ("response_ms", models.IntegerField(null=True)),
                ("changed_at", models.DateTimeField(null=True)),
                ("endings", models.IntegerField(db_default=0, default=0)),
                ("found_on", models.UUIDField(null=True)),
                (
                    "batch",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.batch",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "lane",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.lane",
                    ),
                ),
            ],
            options={
                "verbose_name": "document",
                "indexes": [
                    models.Index(
                        condition=models.Q(("seq__isnull", False), ("stage", jobs.lifecycle.document.Stage["PENDING"])),
                        fields=["lane", "run_no", "seq"],
                        name="document_due",
                    ),
                    models.Index(fields=["lane", "run_no"], name="document_of_run"),
                    models.Index(
                        condition=models.Q(("check_time__isnull", False)),
                        fields=["lane", "check_time"],
                        name="document_waiting",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("indexed_before", True), ("stage", jobs.lifecycle.document.Stage["HOPCOUNT_REMOVED"])
                        ),
                        fields=["lane", "run_no"],
                        name="document_outside",
                    ),
                    models.Index(
                        condition=models.Q(("batch__isnull", False)), fields=["batch"], name="document_claimed"
                    ),
                    models.Index(
                        condition=models.Q(("outcome__in", [3, 4])),
                        fields=["hash", "job"],
                        name="document_failed_or_excluded",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("batch__isnull", False),
                                (
                                    "stage__in",
                                    [
                                        jobs.lifecycle.document.Stage["ACTIVE"],
                                        jobs.lifecycle.document.Stage["BEING_CLEANED"],
                                        jobs.lifecycle.document.Stage["BEING_DELETED"],
                                    ],
                                ),
                            ),
                            models.Q(
                                ("batch__isnull", True),
                                (
                                    "stage__in",
                                    [
                                        jobs.lifecycle.document.Stage["PENDING"],
                                        jobs.lifecycle.document.Stage["DONE"],
                                        jobs.lifecycle.document.Stage["HOPCOUNT_REMOVED"],
                                    ],
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="document_is_claimed_exactly_when_in_a_batch",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RedirectEdge",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "job_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("target", models.UUIDField()),
                ("run_no", models.IntegerField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["job", "target"], name="redirect_edge_by_target")],
            },
        ),
        migrations.CreateModel(
            name="RejectedAddress",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_id", "hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("identifier", models.TextField()),
                ("found_on", models.UUIDField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RepositoryConnection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("connector", models.SlugField(default="web")),
                ("configuration", models.JSONField(blank=True, default=dict)),
                ("is_confined", models.BooleanField(db_default=False, default=False, editable=False)),
                ("clear_history_before", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "authority_group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="repositories",
                        to="authorities.authoritygroup",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("clear_history_before__isnull", False)),
                        fields=["id"],
                        name="source_clears_history",
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        nodes.models.word_search.Words("name"), name="source_words"
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="job",
            name="repository",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="jobs.repositoryconnection"
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(_HISTORY + _DAYS.format(table="jobs_activity"), "DROP TABLE jobs_activity")
            ],
            state_operations=[
                migrations.CreateModel(
                    name="Activity",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("started_at", models.DateTimeField()),
                        ("seconds", models.FloatField(null=True)),
                        ("activity", models.TextField()),
                        ("entity", models.TextField()),
                        ("bytes", models.BigIntegerField(null=True)),
                        ("result_code", models.TextField(db_default="", default="")),
                        ("result_description", models.TextField(db_default="", default="")),
                        ("node", models.TextField(db_default="", default="")),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="jobs.job",
                            ),
                        ),
                        (
                            "output",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="jobs.outputconnection",
                            ),
                        ),
                        (
                            "repository",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="jobs.repositoryconnection",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "activities",
                        "indexes": [models.Index(fields=["repository", "started_at"], name="activity_of_repository")],
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name="Restoration",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField(db_index=True)),
                ("run_no", models.PositiveIntegerField()),
                ("since", models.DateTimeField(null=True)),
                ("cause", models.CharField(blank=True, max_length=20)),
                ("output_id", models.BigIntegerField(null=True)),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.CharField(max_length=150)),
                ("ended_at", models.DateTimeField(null=True)),
                ("restored", models.PositiveBigIntegerField(default=0)),
                ("unread", models.PositiveBigIntegerField(default=0)),
                ("refused", models.TextField(blank=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)), fields=["id"], name="restoration_is_open"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RunSample",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="sample",
                        serialize=False,
                        to="jobs.run",
                    ),
                ),
                ("is_whole", models.BooleanField()),
                ("hashes", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("identifiers", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                (
                    "outcomes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), size=None),
                ),
                ("codes", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("versions", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                (
                    "answer_ms",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(null=True), size=None),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="run",
            name="job",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="jobs.job"),
        ),
        migrations.CreateModel(
            name="RunDifference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("run_no", models.IntegerField()),
                ("before", models.SmallIntegerField()),
                ("after", models.SmallIntegerField()),
                ("code", models.CharField(blank=True, max_length=30)),
                ("bin_id", models.BigIntegerField()),
                ("amount", models.BigIntegerField()),
                ("examples", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job_id", "run_no", "before", "after", "code", "bin_id"), name="one_difference_a_key"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ScheduleWindow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveSmallIntegerField()),
                (
                    "days_of_week",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "days_of_month",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "months",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "years",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "hours",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "minutes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(), blank=True, default=list, size=None
                    ),
                ),
                ("time_zone", models.CharField(default="UTC", max_length=60)),
                ("duration", models.DurationField(blank=True, null=True)),
                ("minimal", models.BooleanField(default=False)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="windows", to="jobs.job"
                    ),
                ),
            ],
            options={
                "ordering": ("job", "position"),
                "constraints": [
                    models.UniqueConstraint(fields=("job", "position"), name="one_window_a_job_and_position")
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchAccess",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "digest", "place", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("digest", models.UUIDField()),
                ("place", models.SmallIntegerField()),
                ("of", models.SmallIntegerField()),
                ("level", models.CharField(max_length=10)),
                ("allow", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("deny", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
            ],
            options={
                "indexes": [django.contrib.postgres.indexes.GinIndex(fields=["allow"], name="search_access_allow")],
            },
        ),
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "output_id", "hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("url", models.TextField()),
                ("title", models.TextField()),
                ("description", models.TextField()),
                ("text", models.TextField()),
                ("content_type", models.CharField(max_length=100)),
                ("language", models.CharField(max_length=35)),
                ("metadata", models.JSONField(null=True)),
                ("fetched_at", models.DateTimeField()),
                ("access", models.UUIDField(null=True)),
                ("written_at", models.DateTimeField()),
                ("vector", django.contrib.postgres.search.SearchVectorField(null=True)),
                (
                    "output",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.outputconnection",
                    ),
                ),
            ],
            options={
                "permissions": (("search_as_user", "Can search with the access of another user"),),
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(fields=["vector"], name="search_vector"),
                    models.Index(fields=["access"], name="search_access"),
                    models.Index(
                        condition=models.Q(("vector__isnull", True)), fields=["written_at"], name="search_behind"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Seed",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "urls",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), help_text="One or more addresses to start from.", size=None
                    ),
                ),
                ("seeded_run", models.PositiveIntegerField(default=0)),
                ("seeding_version", models.TextField(blank=True, db_default="", default="")),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "tag",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Only workers with this tag read the documents of the seed. If empty, any worker does.",
                        max_length=64,
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="seeds", to="jobs.job"),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="seeds",
                        to="jobs.throttlepolicy",
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
                "indexes": [
                    models.Index(condition=models.Q(("tag", ""), _negated=True), fields=["job"], name="seed_tagged")
                ],
            },
        ),
        migrations.CreateModel(
            name="LaneState",
            fields=[
                ("version", models.BigIntegerField(db_default=0, default=0)),
                ("ready_at", models.DateTimeField(null=True)),
                ("served_at", models.DateTimeField(null=True)),
                ("head", models.BigIntegerField(db_default=0, default=0)),
                ("is_ahead", models.BooleanField(db_default=False, default=False)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lane_id", "version", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "bin",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.bin",
                    ),
                ),
                (
                    "lane",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="states",
                        to="jobs.lane",
                    ),
                ),
                (
                    "seed",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.seed",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["seed", "is_ahead", "ready_at"], name="lane_ready"),
                    models.Index(
                        models.F("seed"),
                        models.OrderBy(models.F("served_at"), descending=True, nulls_last=True),
                        condition=models.Q(("ready_at__isnull", True)),
                        name="lane_asleep",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="lane",
            name="seed",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="lanes", to="jobs.seed"
            ),
        ),
        migrations.CreateModel(
            name="ForeignLink",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "job_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("target", models.CharField(max_length=31)),
                ("identifier", models.TextField()),
                ("bin", models.TextField()),
                ("run_no", models.IntegerField()),
                ("depth", models.IntegerField()),
                ("redirects", models.SmallIntegerField()),
                ("found_on", models.UUIDField()),
                (
                    "edges",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=2),
                        db_default=[],
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "seed",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.seed",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["job", "run_no"], name="foreign_link_of_run")],
            },
        ),
        migrations.CreateModel(
            name="SeedRedirect",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hash", models.UUIDField()),
                ("source", models.TextField()),
                ("target_hash", models.UUIDField()),
                ("target", models.TextField()),
                ("target_host", models.TextField()),
                ("is_followed", models.BooleanField()),
                ("noted_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="seed_redirects",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job", "target_hash"], name="seed_redirects_to_document"),
                    models.Index(fields=["job", "target_host"], name="seed_redirects_to_host"),
                ],
                "constraints": [models.UniqueConstraint(fields=("job", "hash"), name="one_redirect_a_seed")],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                ("number", models.PositiveIntegerField(default=1)),
                ("sealed", models.TextField()),
                ("made_at", models.DateTimeField()),
                (
                    "repository",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to="jobs.repositoryconnection",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("repository", "name"), name="one_session_a_name")],
            },
        ),
        migrations.CreateModel(
            name="ThrottleGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node_scope", models.CharField(max_length=100)),
                ("epoch", models.BigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[("free", "free"), ("owned", "owned"), ("releasing", "releasing")],
                        default="free",
                        max_length=10,
                    ),
                ),
                ("weight", models.FloatField(default=1.0)),
                ("releasing_since", models.DateTimeField(blank=True, null=True)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("failing_why", models.CharField(blank=True, db_default="", default="", max_length=300)),
                (
                    "destination",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="nodes.node",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="nodes.node",
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.throttlepolicy",
                    ),
                ),
                (
                    "seed",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.seed",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "owned"), _negated=True),
                        fields=["node_scope"],
                        name="group_not_owned",
                    ),
                    models.Index(
                        condition=models.Q(("failing_since__isnull", False)), fields=["id"], name="group_failing"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "node_scope"), name="one_group_a_policy_and_scope"),
                    models.UniqueConstraint(fields=("seed", "node_scope"), name="one_group_a_seed_and_scope"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("policy__isnull", False), ("seed__isnull", True)),
                            models.Q(("policy__isnull", True), ("seed__isnull", False)),
                            _connector="OR",
                        ),
                        name="group_is_of_a_policy_or_of_a_seed",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("releasing_since__isnull", False), ("state", "releasing")),
                            models.Q(
                                models.Q(("state", "releasing"), _negated=True),
                                ("destination__isnull", True),
                                ("releasing_since__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="group_has_a_destination_only_while_it_moves",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="seed",
            name="group",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="seeds",
                to="jobs.throttlegroup",
            ),
        ),
        migrations.AddField(
            model_name="batch",
            name="group",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="batches",
                to="jobs.throttlegroup",
            ),
        ),
        migrations.CreateModel(
            name="ThrottleRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "open_requests",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                    ),
                ),
                (
                    "min_gap",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0.0),
                            django.core.validators.MaxValueValidator(86400.0),
                        ],
                    ),
                ),
                (
                    "starts",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "period",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("second", "per second"),
                            ("minute", "per minute"),
                            ("hour", "per hour"),
                            ("day", "per day"),
                        ],
                        db_default="",
                        default="",
                        max_length=6,
                    ),
                ),
                (
                    "bytes_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(2147483647),
                        ],
                    ),
                ),
                (
                    "total_open_requests",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "total_starts",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "total_period",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("second", "per second"),
                            ("minute", "per minute"),
                            ("hour", "per hour"),
                            ("day", "per day"),
                        ],
                        db_default="",
                        default="",
                        max_length=6,
                    ),
                ),
                (
                    "total_bytes_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(2147483647),
                        ],
                    ),
                ),
                ("position", models.PositiveSmallIntegerField()),
                ("pattern", models.CharField(blank=True, default="", max_length=300)),
                (
                    "days",
                    django.contrib.postgres.fields.ArrayField(base_field=models.PositiveSmallIntegerField(), size=None),
                ),
                ("from_time", models.TimeField(blank=True, null=True)),
                ("to_time", models.TimeField(blank=True, null=True)),
                ("denies", models.BooleanField(default=False)),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rules", to="jobs.throttlepolicy"
                    ),
                ),
            ],
            options={
                "ordering": ("policy", "position"),
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "position"), name="one_rule_a_policy_and_position"),
                    models.CheckConstraint(
                        condition=models.Q(("days__len", 0), _negated=True), name="rule_names_a_day"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("from_time__isnull", True), ("to_time__isnull", True)),
                            models.Q(
                                ("from_time__isnull", False),
                                ("to_time__isnull", False),
                                models.Q(("from_time", models.F("to_time")), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="rule_begins_and_ends",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("period", ""), ("starts__isnull", True)),
                            models.Q(
                                ("starts__gte", 1), ("starts__isnull", False), models.Q(("period", ""), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="rule_rate_is_whole",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("total_period", ""), ("total_starts__isnull", True)),
                            models.Q(
                                ("total_starts__gte", 1),
                                ("total_starts__isnull", False),
                                models.Q(("total_period", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="rule_total_is_whole",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("open_requests", 0), _negated=True),
                            models.Q(("bytes_per_second", 0), _negated=True),
                            models.Q(("total_open_requests", 0), _negated=True),
                            models.Q(("total_bytes_per_second", 0), _negated=True),
                        ),
                        name="rule_limits_are_null_or_positive",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TrapSuspect",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.TextField()),
                ("template", models.TextField()),
                ("rule", models.TextField()),
                ("parameter", models.TextField(db_default="", default="")),
                ("run_no", models.PositiveIntegerField()),
                ("fetched", models.BigIntegerField(db_default=0, default=0)),
                ("new", models.BigIntegerField(db_default=0, default=0)),
                ("bytes", models.BigIntegerField(db_default=0, default=0)),
                ("held", models.BigIntegerField(db_default=0, default=0)),
                ("samples", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("new_samples", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("proven", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("suspected_at", models.DateTimeField()),
                (
                    "decision",
                    models.CharField(
                        choices=[("open", "open"), ("accepted", "accepted"), ("released", "released")],
                        db_default="open",
                        default="open",
                        max_length=10,
                    ),
                ),
                ("decided_by", models.CharField(db_default="", default="", max_length=150)),
                ("decided_at", models.DateTimeField(null=True)),
                ("accepted_as", models.CharField(db_default="", default="", max_length=20)),
                ("rule_state", models.CharField(db_default="", default="", max_length=10)),
                ("of_partition", models.CharField(db_default="", default="", max_length=31)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(condition=models.Q(("decision", "open")), fields=["job"], name="open_suspects")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "host", "template"), name="one_suspect_a_group")
                ],
            },
        ),
        migrations.CreateModel(
            name="Turn",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("documents", models.IntegerField()),
                ("requests", models.IntegerField()),
                ("gap", models.FloatField()),
                ("bytes_per_second", models.FloatField(null=True)),
                ("parents", models.JSONField(null=True)),
                ("is_denied", models.BooleanField(db_default=False, default=False)),
                ("is_trial", models.BooleanField(db_default=False, default=False)),
                ("closed_at", models.DateTimeField(null=True)),
                ("starts", models.IntegerField(db_default=0, default=0)),
                ("bytes_read", models.BigIntegerField(db_default=0, default=0)),
                (
                    "batch",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="turns",
                        to="jobs.batch",
                    ),
                ),
                (
                    "bin",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="turns",
                        to="jobs.bin",
                    ),
                ),
                (
                    "follows",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="followers",
                        to="jobs.turn",
                    ),
                ),
                (
                    "lane",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="turns",
                        to="jobs.lane",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("closed_at__isnull", True)), fields=["bin", "id"], name="turn_open"
                    ),
                    models.Index(
                        condition=models.Q(("closed_at__isnull", True)), fields=["id"], name="turn_open_by_id"
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        condition=models.Q(("closed_at__isnull", True), ("parents__isnull", False)),
                        fields=["parents"],
                        name="turn_open_of_parent",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ArchiveRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("hash", models.UUIDField()),
                ("run_no", models.IntegerField()),
                ("offset", models.BigIntegerField()),
                ("length", models.BigIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("response", "response"),
                            ("same_payload", "same payload"),
                            ("not_modified", "not modified"),
                        ],
                        max_length=15,
                    ),
                ),
                ("status", models.IntegerField()),
                ("digest", models.CharField(max_length=50)),
                ("fetched_at", models.DateTimeField()),
                ("is_lost", models.BooleanField(db_default=False, default=False)),
                (
                    "file",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="records",
                        to="jobs.archivefile",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job_id", "hash", "id"], name="record_of_document"),
                    models.Index(condition=models.Q(("is_lost", True)), fields=["id"], name="record_is_lost"),
                ],
                "constraints": [models.UniqueConstraint(fields=("file", "offset"), name="record_has_its_own_place")],
            },
        ),
        migrations.CreateModel(
            name="ArchiveFault",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("deleted", "copy deleted"),
                            ("truncated", "copy truncated"),
                            ("damaged", "copy damaged"),
                            ("foreign", "foreign file"),
                            ("no_record", "row without a record"),
                            ("no_row", "records without rows"),
                            ("lost", "document without a body"),
                        ],
                        max_length=10,
                    ),
                ),
                ("path", models.TextField()),
                ("place", models.TextField(default="")),
                ("job_id", models.BigIntegerField(null=True)),
                ("hash", models.UUIDField(null=True)),
                ("identifier", models.TextField(default="")),
                ("result", models.TextField(db_default="", default="")),
                (
                    "verification",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="found",
                        to="jobs.archiveverification",
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["verification", "id"], name="fault_of_verification")],
            },
        ),
        migrations.AddField(
            model_name="laneplan",
            name="job",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(fields=("job", "run_no"), name="one_run_a_job_and_number"),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.UniqueConstraint(fields=("seed", "bin"), name="one_lane_a_seed_and_bin"),
        ),
        migrations.AddIndex(
            model_name="laneplan",
            index=models.Index(
                models.F("job_id"),
                models.OrderBy(models.F("lacks"), descending=True),
                condition=models.Q(("lacks__gt", 0)),
                name="lane_plan_lacks",
            ),
        ),
        migrations.AddIndex(
            model_name="laneplan",
            index=models.Index(fields=["job"], name="lane_plan_of_job"),
        ),
        migrations.RunSQL(_NUMBERS, "DROP SEQUENCE jobs_document_number"),
        *(
            migrations.RunSQL(f"ALTER TABLE jobs_{table} SET ({_BUSY})", migrations.RunSQL.noop)
            for table in _BUSY_TABLES
        ),
        migrations.RunSQL(_ROOM_IN_PAGES, migrations.RunSQL.noop),
        migrations.RunSQL(_MANY_VERSIONS, migrations.RunSQL.noop),
        migrations.RunSQL(_TOMBSTONES + _DAYS.format(table="jobs_tombstone"), "DROP TABLE jobs_tombstone"),
        *(
            migrations.RunSQL(_ONE_STATE.replace("{of}", of), _functions_dropped(_ONE_STATE.replace("{of}", of)))
            for of in ("lane", "bin")
        ),
        migrations.RunSQL(_VERSION_OF_POLICY, _functions_dropped(_VERSION_OF_POLICY)),
        migrations.RunSQL(_MARKS_OF_SEEDS, _functions_dropped(_MARKS_OF_SEEDS)),
        migrations.RunSQL(_NUMBERED, migrations.RunSQL.noop),
        migrations.RunSQL(_NO_STATISTICS, migrations.RunSQL.noop),
        migrations.RunSQL(_NOTE, _NOTE_NO_MORE),
        migrations.RunSQL(_KEEP_BLOCKS, _functions_dropped(_KEEP_BLOCKS)),
        migrations.RunSQL(_COMPRESSED, migrations.RunSQL.noop),
    ]
