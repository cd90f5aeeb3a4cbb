"""The number that orders due documents, and how the busy tables are stored and vacuumed."""

from django.db import migrations

# Half of a document's updates move it in or out of a partial index, so they cannot be HOT; what
# keeps the indexes small is that dead entries go soon. The default waits for a fifth of the table.
_BUSY = "autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 2000"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_the_crawl")]

    operations = [
        migrations.RunSQL("CREATE SEQUENCE jobs_document_number", "DROP SEQUENCE jobs_document_number"),
        *(
            migrations.RunSQL(
                f"ALTER TABLE {table} SET ({_BUSY})",
                f"ALTER TABLE {table} RESET (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor, autovacuum_vacuum_cost_limit)",
            )
            for table in ("jobs_queueitem", "jobs_counterdelta", "jobs_batch", "jobs_turn", "jobs_lane", "jobs_bin")
        ),
    ]
