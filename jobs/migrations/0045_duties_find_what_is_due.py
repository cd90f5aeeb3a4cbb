"""
What duties look for in each of their turns has an index of its own: jobs whose schedule is due or whose window is over, those that lack a connector,
connections of which something is forgotten, cleared or searched.
"""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0044_one_state_a_lane_and_bin'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='schedule_due_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(models.Q(('phase', 'inactive'), models.Q(('start_method', 'manual'), _negated=True)), models.Q(('phase', 'active'), models.Q(('window', 'inside'), _negated=True)), _connector='OR'), fields=['schedule_due_at'], name='job_schedule_due'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('phase', 'active'), ('window_ends_at__isnull', False)), fields=['window_ends_at'], name='job_window_ends'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('connectors_ready', False)), fields=['id'], name='job_lacks_connector'),
        ),
        migrations.AddIndex(
            model_name='outputconnection',
            index=models.Index(condition=models.Q(('clear_before__isnull', False)), fields=['id'], name='output_is_cleared'),
        ),
        migrations.AddIndex(
            model_name='outputconnection',
            index=models.Index(condition=models.Q(('orphans_after__isnull', False)), fields=['id'], name='output_is_searched'),
        ),
        migrations.AddIndex(
            model_name='repositoryconnection',
            index=models.Index(condition=models.Q(('clear_history_before__isnull', False)), fields=['id'], name='source_forgets'),
        ),
    ]
