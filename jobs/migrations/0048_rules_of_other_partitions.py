from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0047_revision_of_a_job"),
    ]

    operations = [
        migrations.AddField(
            model_name="trapsuspect",
            name="of_partition",
            field=models.CharField(db_default="", default="", max_length=31),
        ),
    ]
