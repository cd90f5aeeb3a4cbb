"""
What each turn changes of a bin and of a lane goes to tables of its own, in which the key of a row grows with each
version; bins and lanes are written rarely from now on, so their pages need no room.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

_BUSY = "autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 2000"
_MOVE = """
INSERT INTO jobs_binstate (bin_id, not_before, closed_at, open_turns, open_requests, starts, bytes_read)
SELECT id, not_before, closed_at, open_turns, open_requests, starts, bytes_read FROM jobs_bin;
INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, ready_at, served_at, head, is_ahead)
SELECT id, seed_id, bin_id, ready_at, served_at, head, is_ahead FROM jobs_lane
"""
_MOVE_BACK = """
UPDATE jobs_bin
   SET not_before = state.not_before, closed_at = state.closed_at, open_turns = state.open_turns,
       open_requests = state.open_requests, starts = state.starts, bytes_read = state.bytes_read
  FROM jobs_binstate AS state WHERE state.bin_id = jobs_bin.id;
UPDATE jobs_lane
   SET ready_at = state.ready_at, served_at = state.served_at, head = state.head, is_ahead = state.is_ahead
  FROM jobs_lanestate AS state WHERE state.lane_id = jobs_lane.id
"""


def _of_others(model: str) -> models.ForeignKey:
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.DO_NOTHING,
        related_name="+",
        to=f"jobs.{model}",
    )


def _of(model: str) -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="states", to=f"jobs.{model}"
    )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0041_lists_have_their_indexes")]

    operations = [
        migrations.CreateModel(
            name="BinState",
            fields=[
                ("bin", _of("bin")),
                ("version", models.BigIntegerField(db_default=0, default=0)),
                ("not_before", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("open_turns", models.IntegerField(db_default=0, default=0)),
                ("open_requests", models.IntegerField(db_default=0, default=0)),
                ("starts", models.BigIntegerField(db_default=0, default=0)),
                ("bytes_read", models.BigIntegerField(db_default=0, default=0)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "bin_id", "version", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LaneState",
            fields=[
                ("lane", _of("lane")),
                ("version", models.BigIntegerField(db_default=0, default=0)),
                ("seed", _of_others("seed")),
                ("bin", _of_others("bin")),
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
            ],
        ),
        *(
            migrations.RunSQL(f"ALTER TABLE {table} SET ({_BUSY})", migrations.RunSQL.noop)
            for table in ("jobs_binstate", "jobs_lanestate")
        ),
        migrations.RunSQL(_MOVE, _MOVE_BACK),
        migrations.RemoveIndex(model_name="lane", name="lane_ready"),
        migrations.RemoveIndex(model_name="lane", name="lane_asleep"),
        *(
            migrations.RemoveField(model_name="bin", name=name)
            for name in ("not_before", "closed_at", "open_turns", "open_requests", "starts", "bytes_read")
        ),
        *(
            migrations.RemoveField(model_name="lane", name=name)
            for name in ("ready_at", "served_at", "head", "is_ahead")
        ),
        migrations.AddIndex(
            model_name="lanestate", index=models.Index(fields=["seed", "is_ahead", "ready_at"], name="lane_ready")
        ),
        migrations.AddIndex(
            model_name="lanestate",
            index=models.Index(
                F("seed"), F("served_at").desc(nulls_last=True), name="lane_asleep", condition=Q(ready_at__isnull=True)
            ),
        ),
        migrations.RunSQL("ALTER TABLE jobs_bin RESET (fillfactor)", "ALTER TABLE jobs_bin SET (fillfactor = 50)"),
    ]
