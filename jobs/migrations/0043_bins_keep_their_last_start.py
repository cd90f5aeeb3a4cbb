"""
A bin keeps when it was asked last: the moment of its next start is worked out from that and the limits in force.

Of bins that wait now only that moment is known; they count from here.
"""

from django.db import migrations, models

_FROM_HERE = "UPDATE jobs_binstate SET last_start_at = clock_timestamp() WHERE not_before > clock_timestamp()"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0042_what_each_turn_changes")]

    operations = [
        migrations.AddField("binstate", "last_start_at", models.DateTimeField(null=True)),
        migrations.RunSQL(_FROM_HERE, migrations.RunSQL.noop),
    ]
