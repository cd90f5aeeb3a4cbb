from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("jobs", "0045_requests_without_goals"),)

    operations = (
        migrations.AddField(
            model_name="job", name="surplus_versions_after", field=models.UUIDField(editable=False, null=True)
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("surplus_versions_after__isnull", False)),
                fields=["id"],
                name="job_has_surplus_versions",
            ),
        ),
    )
