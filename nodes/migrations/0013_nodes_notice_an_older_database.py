"""
Nodes count their beats, and the database has an incarnation: so nodes notice a restore and a promoted standby.

The fence of each write calls the function, which takes some ten microseconds. Parts that the role may not read, or that
a service does not offer, stay empty. The timeline is that of the write-ahead log, because the control file names the
new one only after the first checkpoint.
"""

from django.db import migrations, models

INCARNATION = """
CREATE FUNCTION nodes_incarnation() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    cluster text := '';
    timeline text := '';
BEGIN
    BEGIN
        timeline := substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
        cluster := (SELECT system_identifier::text FROM pg_control_system());
    EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported
                OR object_not_in_prerequisite_state THEN
        NULL;
    END;
    RETURN concat_ws('/', cluster, timeline, (SELECT oid FROM pg_database WHERE datname = current_database()),
                     to_regclass('nodes_node')::oid);
END;
$$;
"""
NO_INCARNATION = "DROP FUNCTION nodes_incarnation();"


class Migration(migrations.Migration):
    dependencies = [("nodes", "0012_answers_are_kept_for_their_keys")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="beats",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="beats that the database has counted"),
        ),
        migrations.RunSQL(sql=INCARNATION, reverse_sql=NO_INCARNATION),
    ]
