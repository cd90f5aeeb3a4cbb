"""Addresses of documents from before the index of addresses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0033_address_index"),
    ]

    operations = [
        # A document that is inserted meanwhile may be noted twice, which does no harm.
        migrations.RunSQL(
            "INSERT INTO jobs_newaddress (job_id, hash, address) SELECT job_id, hash, identifier FROM jobs_queueitem",
            migrations.RunSQL.noop,
        ),
    ]
