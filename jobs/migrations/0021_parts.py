"""Parts of documents: their records in outputs, and their tombstones. A large database needs no rewrite for it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0020_limits_of_partitions")]

    operations = [
        migrations.AddField(model_name="indexeddocument", name="parent", field=models.UUIDField(null=True)),
        migrations.AddField(
            model_name="indexeddocument", name="part", field=models.TextField(default="", db_default="")
        ),
        migrations.AddIndex(
            model_name="indexeddocument",
            index=models.Index(
                fields=["parent", "output"], name="record_of_part", condition=models.Q(parent__isnull=False)
            ),
        ),
        migrations.RunSQL(
            "ALTER TABLE jobs_tombstone ADD COLUMN part text NOT NULL DEFAULT ''",
            "ALTER TABLE jobs_tombstone DROP COLUMN part",
        ),
    ]
