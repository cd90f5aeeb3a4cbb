"""Rename a stored state, the time of a member's heartbeat, and labels with the main manager."""

from typing import Final

from django.db import migrations, models

_KINDS: Final = (
    ("registered", "registered"),
    ("running", "began to work"),
    ("draining", "began to drain"),
    ("stopped", "stopped"),
    ("marked_failed", "was marked failed"),
    ("elected", "became main manager"),
    ("resigned", "resigned as main manager"),
    ("settings", "settings were stored"),
    ("given", "was given groups"),
    ("moving", "is to hand groups over"),
    ("handed_over", "handed groups over"),
    ("asked", "was requested by an administrator"),
    ("changed", "was changed"),
)
_STATES: Final = (
    ("waiting", "waiting for the main manager"),
    ("in_progress", "in progress"),
    ("done", "done"),
    ("refused", "refused"),
    ("changed", "changed meanwhile"),
)


class Migration(migrations.Migration):
    dependencies = (("nodes", "0003_labels"),)

    operations = (
        migrations.RenameField("CoordinationMember", "beaten_at", "heartbeat_at"),
        migrations.AlterField("NodeEvent", "kind", models.SlugField(choices=_KINDS, db_index=False)),
        migrations.RemoveConstraint("ClusterRequest", "one_open_request_of_its_kind"),
        migrations.AlterField("ClusterRequest", "state", models.TextField(choices=_STATES, default="waiting")),
        migrations.RunSQL(
            "UPDATE nodes_clusterrequest SET state = 'in_progress' WHERE state = 'under way'",
            "UPDATE nodes_clusterrequest SET state = 'under way' WHERE state = 'in_progress'",
        ),
        migrations.AddConstraint(
            "ClusterRequest",
            models.UniqueConstraint(
                name="one_open_request_of_its_kind",
                fields=("scope", "kind", "item", "node", "dry_run", "expected"),
                condition=models.Q(state__in=("waiting", "in_progress")),
                nulls_distinct=False,
            ),
        ),
    )
