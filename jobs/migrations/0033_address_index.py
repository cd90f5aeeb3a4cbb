"""The index of addresses: a note of each new document, and blocks of addresses with their grams."""

from typing import Final

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models

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


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0032_minutes_of_the_cluster"),
    ]

    operations = [
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
                )
            ],
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
        migrations.RunSQL(_NO_STATISTICS, migrations.RunSQL.noop),
        migrations.RunSQL(_NOTE, _NOTE_NO_MORE),
    ]
