
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0021_groups_are_released'),
    ]

    operations = [
        migrations.AddField(
            model_name='batch',
            name='tag',
            field=models.CharField(db_default='', default='', max_length=64),
        ),
        migrations.AddField(
            model_name='seed',
            name='tag',
            field=models.CharField(blank=True, db_default='', default='', help_text='Only workers that were started with this tag read it. Empty: any.', max_length=64),
        ),
        migrations.AddIndex(
            model_name='seed',
            index=models.Index(condition=models.Q(('tag', ''), _negated=True), fields=['job'], name='seed_tagged'),
        ),
    ]
