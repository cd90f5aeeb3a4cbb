"""The delete guard looks at single hosts, and at seeds that name nothing of what they named before."""

from django.core.validators import MaxValueValidator
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0061_connections_before_the_roots_are_confined"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="guard_host_percent",
            field=models.PositiveSmallIntegerField(
                blank=True, db_default=50, default=50, null=True, validators=[MaxValueValidator(100)]
            ),
        ),
        migrations.AddField(
            model_name="outlinks",
            name="is_replaced",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
