from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("jobs", "0044_run_differences"),)

    operations = (
        migrations.AddField(
            model_name="laneplan", name="host_others", field=models.FloatField(db_default=0.0, default=0.0)
        ),
    )
