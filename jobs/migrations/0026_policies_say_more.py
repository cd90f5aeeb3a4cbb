"""
What a policy says beside open requests and a gap: rates, bytes, totals, rules by pattern and time of the week.

Its version is kept by the database itself: whoever changes a policy or a rule, by whatever way, what was worked
out from it is known to be old.
"""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

GROWING_VERSION = """
CREATE FUNCTION jobs_count_change_of_policy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;

CREATE TRIGGER policy_version_grows
    BEFORE UPDATE ON jobs_throttlepolicy FOR EACH ROW
    WHEN (NEW.* IS DISTINCT FROM OLD.*)
    EXECUTE FUNCTION jobs_count_change_of_policy();

CREATE FUNCTION jobs_count_change_of_rule() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_throttlepolicy SET version = version + 1 WHERE id IN (OLD.policy_id, NEW.policy_id);
    RETURN NULL;
END $$;

CREATE TRIGGER policy_version_grows_with_its_rules
    AFTER INSERT OR UPDATE OR DELETE ON jobs_throttlerule FOR EACH ROW
    EXECUTE FUNCTION jobs_count_change_of_rule();
"""

NO_GROWING_VERSION = """
DROP TRIGGER policy_version_grows_with_its_rules ON jobs_throttlerule;
DROP FUNCTION jobs_count_change_of_rule();
DROP TRIGGER policy_version_grows ON jobs_throttlepolicy;
DROP FUNCTION jobs_count_change_of_policy();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0025_batches_are_of_documents'),
    ]

    operations = [
        migrations.CreateModel(
            name='ThrottleRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('pattern', models.CharField(blank=True, default='', max_length=300)),
                ('days', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveSmallIntegerField(), size=None)),
                ('from_time', models.TimeField(blank=True, null=True)),
                ('to_time', models.TimeField(blank=True, null=True)),
                ('open_requests', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)])),
                ('min_gap', models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(86400.0)])),
                ('starts', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)])),
                ('period', models.CharField(blank=True, choices=[('second', 'per second'), ('minute', 'per minute'), ('hour', 'per hour'), ('day', 'per day')], db_default='', default='', max_length=6)),
                ('bytes_per_second', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2147483647)])),
                ('total_open_requests', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)])),
                ('total_starts', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)])),
                ('total_period', models.CharField(blank=True, choices=[('second', 'per second'), ('minute', 'per minute'), ('hour', 'per hour'), ('day', 'per day')], db_default='', default='', max_length=6)),
                ('total_bytes_per_second', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2147483647)])),
                ('denies', models.BooleanField(default=False)),
            ],
            options={
                'ordering': ('policy', 'position'),
            },
        ),
        migrations.AlterModelOptions(
            name='throttlepolicy',
            options={'ordering': ('name',), 'permissions': (('limit_everywhere', 'Can limit every bin of the cluster, and deny bins'),), 'verbose_name_plural': 'throttle policies'},
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='bytes_per_second',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2147483647)]),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='holds_everywhere',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='per_address',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='period',
            field=models.CharField(blank=True, choices=[('second', 'per second'), ('minute', 'per minute'), ('hour', 'per hour'), ('day', 'per day')], db_default='', default='', max_length=6),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='starts',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)]),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='time_zone',
            field=models.CharField(db_default='UTC', default='UTC', max_length=60),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='total_bytes_per_second',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2147483647)]),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='total_open_requests',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)]),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='total_period',
            field=models.CharField(blank=True, choices=[('second', 'per second'), ('minute', 'per minute'), ('hour', 'per hour'), ('day', 'per day')], db_default='', default='', max_length=6),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='total_starts',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)]),
        ),
        migrations.AddField(
            model_name='throttlepolicy',
            name='version',
            field=models.PositiveBigIntegerField(db_default=1, default=1, editable=False),
        ),
        migrations.AddIndex(
            model_name='throttlepolicy',
            index=models.Index(condition=models.Q(('holds_everywhere', True)), fields=['id'], name='policy_everywhere'),
        ),
        migrations.AddConstraint(
            model_name='throttlepolicy',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('period', ''), ('starts__isnull', True)), models.Q(('starts__gte', 1), ('starts__isnull', False), models.Q(('period', ''), _negated=True)), _connector='OR'), name='policy_rate_is_whole'),
        ),
        migrations.AddConstraint(
            model_name='throttlepolicy',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('total_period', ''), ('total_starts__isnull', True)), models.Q(('total_starts__gte', 1), ('total_starts__isnull', False), models.Q(('total_period', ''), _negated=True)), _connector='OR'), name='policy_total_is_whole'),
        ),
        migrations.AddConstraint(
            model_name='throttlepolicy',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('bytes_per_second', 0), _negated=True), models.Q(('total_open_requests', 0), _negated=True), models.Q(('total_bytes_per_second', 0), _negated=True)), name='policy_limits_are_none_or_more_than_none'),
        ),
        migrations.AddField(
            model_name='throttlerule',
            name='policy',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rules', to='jobs.throttlepolicy'),
        ),
        migrations.AddConstraint(
            model_name='throttlerule',
            constraint=models.UniqueConstraint(fields=('policy', 'position'), name='one_rule_a_policy_and_position'),
        ),
        migrations.AddConstraint(
            model_name='throttlerule',
            constraint=models.CheckConstraint(condition=models.Q(('days__len', 0), _negated=True), name='rule_names_a_day'),
        ),
        migrations.AddConstraint(
            model_name='throttlerule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('from_time__isnull', True), ('to_time__isnull', True)), models.Q(('from_time__isnull', False), ('to_time__isnull', False), models.Q(('from_time', models.F('to_time')), _negated=True)), _connector='OR'), name='rule_begins_and_ends'),
        ),
        migrations.AddConstraint(
            model_name='throttlerule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('period', ''), ('starts__isnull', True)), models.Q(('starts__gte', 1), ('starts__isnull', False), models.Q(('period', ''), _negated=True)), _connector='OR'), name='rule_rate_is_whole'),
        ),
        migrations.AddConstraint(
            model_name='throttlerule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('total_period', ''), ('total_starts__isnull', True)), models.Q(('total_starts__gte', 1), ('total_starts__isnull', False), models.Q(('total_period', ''), _negated=True)), _connector='OR'), name='rule_total_is_whole'),
        ),
        migrations.AddConstraint(
            model_name='throttlerule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('open_requests', 0), _negated=True), models.Q(('bytes_per_second', 0), _negated=True), models.Q(('total_open_requests', 0), _negated=True), models.Q(('total_bytes_per_second', 0), _negated=True)), name='rule_limits_are_none_or_more_than_none'),
        ),
        migrations.RunSQL(GROWING_VERSION, NO_GROWING_VERSION),
    ]
