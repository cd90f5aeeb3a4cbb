"""A change of many rules makes their policy's version grow once, since each growth writes that row anew."""

from django.db import migrations

TOGETHER = """
DROP TRIGGER policy_version_grows_with_its_rules ON jobs_throttlerule;

CREATE OR REPLACE FUNCTION jobs_count_change_of_rule() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_throttlepolicy SET version = version + 1 WHERE id IN (SELECT policy_id FROM changed);
    RETURN NULL;
END $$;

CREATE TRIGGER policy_version_grows_with_new_rules
    AFTER INSERT ON jobs_throttlerule REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_change_of_rule();
CREATE TRIGGER policy_version_grows_with_its_rules
    AFTER UPDATE ON jobs_throttlerule REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_change_of_rule();
CREATE TRIGGER policy_version_grows_with_lost_rules
    AFTER DELETE ON jobs_throttlerule REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_count_change_of_rule();
"""

EACH_ALONE = """
DROP TRIGGER policy_version_grows_with_lost_rules ON jobs_throttlerule;
DROP TRIGGER policy_version_grows_with_its_rules ON jobs_throttlerule;
DROP TRIGGER policy_version_grows_with_new_rules ON jobs_throttlerule;

CREATE OR REPLACE FUNCTION jobs_count_change_of_rule() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobs_throttlepolicy SET version = version + 1 WHERE id IN (OLD.policy_id, NEW.policy_id);
    RETURN NULL;
END $$;

CREATE TRIGGER policy_version_grows_with_its_rules
    AFTER INSERT OR UPDATE OR DELETE ON jobs_throttlerule FOR EACH ROW
    EXECUTE FUNCTION jobs_count_change_of_rule();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0032_policies_know_when_they_changed")]

    operations = [migrations.RunSQL(TOGETHER, EACH_ALONE)]
