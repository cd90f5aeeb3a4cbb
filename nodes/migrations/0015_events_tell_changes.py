"""Events of the cluster report changes of policies, connections and users."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('nodes', '0014_pace_of_items'),
    ]

    operations = [
        migrations.AlterField(
            model_name='nodeevent',
            name='kind',
            field=models.SlugField(choices=[('registered', 'registered'), ('running', 'began to work'), ('draining', 'began to drain'), ('stopped', 'stopped'), ('marked_failed', 'was marked failed'), ('elected', 'became main'), ('resigned', 'resigned as main'), ('settings', 'settings were stored'), ('given', 'was given groups'), ('moving', 'is to hand groups over'), ('handed_over', 'handed groups over'), ('asked', 'was asked by an administrator'), ('changed', 'was changed')], db_index=False),
        ),
    ]
