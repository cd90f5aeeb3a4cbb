from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("jobs", "0042_open_suspects"),)

    operations = (
        migrations.AddField(
            model_name="trapsuspect",
            name="accepted_as",
            field=models.CharField(db_default="", default="", max_length=20),
        ),
        migrations.AddField(
            model_name="trapsuspect",
            name="rule_state",
            field=models.CharField(db_default="", default="", max_length=10),
        ),
    )
