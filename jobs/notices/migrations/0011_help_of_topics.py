import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('notices', '0010_ignored_settings'),
    ]

    operations = [
        migrations.AlterField(
            model_name='notificationrule',
            name='topics',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('job_fails', 'job_fails'), ('removals_wait', 'removals_wait'), ('schedule_missed', 'schedule_missed'), ('output_refuses', 'output_refuses'), ('connector_missing', 'connector_missing'), ('documents_denied', 'documents_denied'), ('traps_wait', 'traps_wait'), ('host_too_slow', 'host_too_slow'), ('host_fails', 'host_fails'), ('host_stopped', 'host_stopped'), ('group_fails', 'group_fails'), ('partition_silent', 'partition_silent'), ('partition_behind', 'partition_behind'), ('node_lost', 'node_lost'), ('node_silent', 'node_silent'), ('no_manager', 'no_manager'), ('no_worker', 'no_worker'), ('disk_full', 'disk_full'), ('output_behind', 'output_behind'), ('lines_lost', 'lines_lost'), ('output_out_of_sync', 'output_out_of_sync'), ('backup_old', 'backup_old'), ('archive_store_fails', 'archive_store_fails'), ('archive_is_full', 'archive_is_full'), ('archive_is_damaged', 'archive_is_damaged'), ('authority_silent', 'authority_silent'), ('setting_ignored', 'setting_ignored'), ('no_documents', 'no_documents'), ('runs_long', 'runs_long'), ('job_ended', 'job_ended'), ('job_stopped', 'job_stopped'), ('task_failed', 'task_failed')], max_length=40), blank=True, default=list, help_text='If none is chosen, the rule sends all lines of the attention list.', size=None),
        ),
    ]
