from django.db import migrations


class Migration(migrations.Migration):
    """The tables stay: they belong to the application `distributed` from now on."""

    dependencies = [
        ("nodes", "0016_names_are_found_by_their_words"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name="DistributedJobOnNode"),
                migrations.DeleteModel(name="DistributedJobSwitch"),
                migrations.DeleteModel(name="DistributedJobWish"),
            ],
        ),
    ]
