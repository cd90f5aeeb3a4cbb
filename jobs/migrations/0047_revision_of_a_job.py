from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0046_surplus_versions"),
    ]

    operations = [
        migrations.RenameField(model_name="job", old_name="seeds_version", new_name="revision"),
    ]
