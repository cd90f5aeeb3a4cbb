"""
Give columns, indexes and constraints names in plain English.

Functions of triggers and the rows of deleted jobs name columns in texts, which Django does not rename.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Q

_FUNCTIONS: Final = """
CREATE OR REPLACE FUNCTION jobs_mark_new_seeds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_job SET ungrouped = ungrouped + 1, unread = unread + 1 WHERE id IN (SELECT job_id FROM fresh);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION jobs_mark_changed_seeds() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION jobs_mark_moved_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ungrouped := NEW.ungrouped + 1;
    RETURN NEW;
END $$;
"""

# By model: fields of the rows that are kept of deleted jobs.
_STORED_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "jobs.job": {"strays": "ungrouped"},
    "jobs.throttlepolicy": {"holds_everywhere": "applies_everywhere", "spares_loopback": "skips_loopback"},
}


def _rename_stored(new_names: Mapping[str, Mapping[str, str]]) -> Callable[[Apps, BaseDatabaseSchemaEditor], None]:
    def rename(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
        deleted: Any = apps.get_model("jobs", "DeletedJob")
        for job in deleted.objects.iterator(chunk_size=100):
            for row in job.rows:
                names = new_names.get(row["model"], {})
                row["fields"] = {names.get(name, name): value for name, value in row["fields"].items()}
            job.save(update_fields=["rows"])

    return rename


def _rename_constraint(model: str, old: str, new: str, condition: Q) -> migrations.SeparateDatabaseAndState:
    """Rename a constraint of a table without a check of its rows."""
    table = f"jobs_{model.lower()}"
    return migrations.SeparateDatabaseAndState(
        database_operations=[
            migrations.RunSQL(
                f"ALTER TABLE {table} RENAME CONSTRAINT {old} TO {new}",
                f"ALTER TABLE {table} RENAME CONSTRAINT {new} TO {old}",
            )
        ],
        state_operations=[
            migrations.RemoveConstraint(model, old),
            migrations.AddConstraint(model, models.CheckConstraint(condition=condition, name=new)),
        ],
    )


class Migration(migrations.Migration):
    dependencies = (("jobs", "0004_labels"),)

    operations = (
        migrations.RenameField("Job", "strays", "ungrouped"),
        migrations.RunSQL(
            _FUNCTIONS, _FUNCTIONS.replace("ungrouped", "strays")
        ),
        migrations.RenameField("Gate", "shut_at", "closed_at"),
        migrations.RenameField("ThrottlePolicy", "holds_everywhere", "applies_everywhere"),
        migrations.RenameField("ThrottlePolicy", "spares_loopback", "skips_loopback"),
        migrations.RunPython(
            _rename_stored(_STORED_FIELDS),
            _rename_stored(
                {model: {new: old for old, new in names.items()} for model, names in _STORED_FIELDS.items()}
            ),
        ),
        # The conditions of these two indexes follow their columns in the database.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "ALTER INDEX job_has_strays RENAME TO job_has_ungrouped",
                    "ALTER INDEX job_has_ungrouped RENAME TO job_has_strays",
                )
            ],
            state_operations=[
                migrations.RemoveIndex("Job", "job_has_strays"),
                migrations.AddIndex(
                    "Job",
                    models.Index(
                        fields=["id"], name="job_has_ungrouped", condition=~Q(phase="inactive") & Q(ungrouped__gt=0)
                    ),
                ),
                migrations.RemoveIndex("ThrottlePolicy", "policy_everywhere"),
                migrations.AddIndex(
                    "ThrottlePolicy",
                    models.Index(fields=["id"], name="policy_everywhere", condition=Q(applies_everywhere=True)),
                ),
            ],
        ),
        migrations.RenameIndex("ThrottleGroup", new_name="group_not_owned", old_name="group_under_way"),
        migrations.RenameIndex("QueueItem", new_name="document_failed_or_excluded", old_name="document_amiss"),
        migrations.RenameIndex("RepositoryConnection", new_name="source_clears_history", old_name="source_forgets"),
        _rename_constraint(
            "ThrottleGroup",
            "group_is_bound_for_somewhere_while_it_is_released",
            "group_has_a_destination_only_while_it_moves",
            Q(state="releasing", releasing_since__isnull=False)
            | Q(~Q(state="releasing"), destination__isnull=True, releasing_since__isnull=True),
        ),
        _rename_constraint(
            "ThrottlePolicy",
            "policy_limits_are_none_or_more_than_none",
            "policy_limits_are_null_or_positive",
            ~Q(bytes_per_second=0) & ~Q(total_open_requests=0) & ~Q(total_bytes_per_second=0),
        ),
        _rename_constraint(
            "ThrottleRule",
            "rule_limits_are_none_or_more_than_none",
            "rule_limits_are_null_or_positive",
            ~Q(open_requests=0) & ~Q(bytes_per_second=0) & ~Q(total_open_requests=0) & ~Q(total_bytes_per_second=0),
        ),
    )
