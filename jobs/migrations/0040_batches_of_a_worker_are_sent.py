"""
Batches of a worker are found among those that are sent.

The index of all that it ever had was asked for those of no worker, too, and led to what was offered long ago.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0039_bins_are_placed_by_and_by")]

    operations = [
        migrations.AlterField(
            model_name="batch",
            name="worker",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="nodes.node",
            ),
        ),
    ]
