
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0020_histories_can_be_cleared'),
        ('nodes', '0001_cluster'),
    ]

    operations = [
        migrations.AddField(
            model_name='throttlegroup',
            name='destination',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='nodes.node'),
        ),
        migrations.AddField(
            model_name='throttlegroup',
            name='releasing_since',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='throttlegroup',
            name='state',
            field=models.CharField(choices=[('free', 'free'), ('owned', 'owned'), ('releasing', 'releasing')], default='free', max_length=10),
        ),
        migrations.AddIndex(
            model_name='throttlegroup',
            index=models.Index(condition=models.Q(('state', 'owned'), _negated=True), fields=['node_scope'], name='group_under_way'),
        ),
        migrations.AddConstraint(
            model_name='throttlegroup',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('releasing_since__isnull', False), ('state', 'releasing')), models.Q(models.Q(('state', 'releasing'), _negated=True), ('destination__isnull', True), ('releasing_since__isnull', True)), _connector='OR'), name='group_is_bound_for_somewhere_while_it_is_released'),
        ),
    ]
