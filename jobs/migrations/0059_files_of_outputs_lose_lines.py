"""JSON lines files that lost lines are kept until all documents are to be written again."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0058_connections_of_pages_are_confined'),
    ]

    operations = [
        migrations.CreateModel(
            name='LostLines',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('machine', models.CharField(max_length=255)),
                ('noticed_at', models.DateTimeField()),
                ('was_bytes', models.BigIntegerField()),
                ('is_bytes', models.BigIntegerField()),
                ('output', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='lost_lines', to='jobs.outputconnection')),
            ],
            options={
                'ordering': ('machine',),
                'constraints': [models.UniqueConstraint(fields=('output', 'machine'), name='one_loss_a_machine')],
            },
        ),
    ]
