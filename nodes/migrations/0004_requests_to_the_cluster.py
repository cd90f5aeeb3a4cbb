
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('nodes', '0003_stored_settings'),
    ]

    operations = [
        migrations.AlterField(
            model_name='nodeevent',
            name='kind',
            field=models.SlugField(choices=[('registered', 'registered'), ('running', 'began to work'), ('draining', 'began to drain'), ('stopped', 'stopped'), ('marked_failed', 'was marked failed'), ('elected', 'became main'), ('resigned', 'resigned as main'), ('settings', 'settings were stored'), ('given', 'was given groups'), ('moving', 'is to hand groups over'), ('handed_over', 'handed groups over'), ('asked', 'was asked by an administrator')], db_index=False),
        ),
        migrations.CreateModel(
            name='ClusterRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.TextField(choices=[('rebalance', 'rebalance'), ('move', 'move a group'), ('drain', 'drain a node')])),
                ('scope', models.TextField(default='cluster')),
                ('item', models.BigIntegerField(null=True, verbose_name='the item to move')),
                ('node', models.UUIDField(null=True, verbose_name='the node to drain, or to move to')),
                ('dry_run', models.BooleanField(default=False)),
                ('asked_by', models.TextField()),
                ('asked_at', models.DateTimeField()),
                ('state', models.TextField(choices=[('waiting', 'waiting for the main'), ('under way', 'under way'), ('done', 'done'), ('refused', 'refused')], default='waiting')),
                ('reason', models.TextField(blank=True, default='')),
                ('answered_at', models.DateTimeField(null=True)),
                ('answer', models.JSONField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('-id',),
                'permissions': (('control_cluster', 'Can rebalance the cluster, move groups and drain nodes'),),
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ('waiting', 'under way'))), fields=('scope', 'kind', 'item', 'node', 'dry_run'), name='one_open_request_of_its_kind', nulls_distinct=False)],
            },
        ),
    ]
