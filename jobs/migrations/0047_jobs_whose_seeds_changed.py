"""
A job is marked when one of its seeds may have to join another group or to be read anew: duties look at marked jobs, not at all that run.

By triggers, so that no door has to know of it. The marks are counts: who has looked takes back what he saw, and nothing that came since.
"""

from django.db import migrations, models

MARK = """
CREATE FUNCTION jobs_mark_new_seeds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_job SET strays = strays + 1, unread = unread + 1 WHERE id IN (SELECT job_id FROM fresh);
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_mark_changed_seeds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_job AS job SET strays = job.strays + found.strays, unread = job.unread + found.unread
      FROM (SELECT fresh.job_id, max((fresh.policy_id IS DISTINCT FROM stale.policy_id
                                      OR fresh.group_id IS NULL AND stale.group_id IS NOT NULL)::int) AS strays,
                   max((fresh.seeded_run < stale.seeded_run)::int) AS unread
              FROM fresh JOIN stale USING (id)
             GROUP BY fresh.job_id) AS found
     WHERE job.id = found.job_id AND (found.strays > 0 OR found.unread > 0);
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_mark_moved_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.strays := NEW.strays + 1;
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
UNMARK = """
DROP TRIGGER job_takes_its_seeds_to_another_scope ON jobs_job;
DROP TRIGGER job_is_told_of_changed_seeds ON jobs_seed;
DROP TRIGGER job_is_told_of_new_seeds ON jobs_seed;
DROP FUNCTION jobs_mark_moved_job;
DROP FUNCTION jobs_mark_changed_seeds;
DROP FUNCTION jobs_mark_new_seeds;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0046_groups_say_that_they_fail"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="strays",
            field=models.PositiveIntegerField(db_default=1, default=1, editable=False),
        ),
        migrations.AddField(
            model_name="job",
            name="unread",
            field=models.PositiveIntegerField(db_default=1, default=1, editable=False),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    models.Q(("phase", "inactive"), _negated=True), ("strays__gt", 0)
                ),
                fields=["id"],
                name="job_has_strays",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("connectors_ready", True),
                    ("pause", "no"),
                    ("phase", "active"),
                    ("resuming", False),
                    ("seeding", False),
                    ("stop_request", "none"),
                    ("window", "inside"),
                    ("unread__gt", 0),
                ),
                fields=["id"],
                name="job_has_unread",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("connectors_ready", True),
                    ("pause", "no"),
                    ("phase", "active"),
                    ("resuming", False),
                    ("seeding", False),
                    ("stop_request", "none"),
                    ("window", "inside"),
                    ("reseed_at__isnull", False),
                ),
                fields=["reseed_at"],
                name="job_reseeds",
            ),
        ),
        migrations.RunSQL(MARK, UNMARK),
    ]
