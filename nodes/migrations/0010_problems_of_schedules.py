from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('nodes', '0009_clusters_know_their_database'),
    ]

    operations = [
        migrations.AlterField(
            model_name='distributedjobonnode',
            name='problem',
            field=models.TextField(db_default='', default='', verbose_name='what is wrong with its pool, or its schedule'),
        ),
    ]
