"""When a policy was changed last, its rules included: since when a limit holds is asked of whoever is slow."""

import django.db.models.functions
from django.db import migrations, models

WITH_MOMENT = """
CREATE OR REPLACE FUNCTION jobs_count_change_of_policy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END $$;
"""

WITHOUT_MOMENT = """
CREATE OR REPLACE FUNCTION jobs_count_change_of_policy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0031_lanes_that_are_ahead'),
    ]

    operations = [
        migrations.AddField(
            model_name='throttlepolicy',
            name='changed_at',
            field=models.DateTimeField(db_default=django.db.models.functions.Now(), editable=False),
        ),
        migrations.RunSQL(WITH_MOMENT, WITHOUT_MOMENT),
    ]
