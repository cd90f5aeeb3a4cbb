from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0050_failures_by_cause"),
    ]

    operations = [
        migrations.AlterField(
            model_name="seed",
            name="tag",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Only workers with this tag read the documents of the seed. If empty, any worker does.",
                max_length=64,
            ),
        ),
    ]
