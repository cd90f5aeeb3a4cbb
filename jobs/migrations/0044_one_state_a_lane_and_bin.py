"""
The database holds that each lane and each bin has exactly one row of state.

It looks when a transaction ends in which a lane, a bin or a state was made or has gone: no turn does that. An UPDATE of a state is looked at only
if it names another lane or bin.
"""

from typing import LiteralString

from django.db import migrations

_HOLD = """
CREATE FUNCTION jobs_{of}_has_a_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_{of} WHERE id = NEW.id) AND NOT EXISTS (SELECT FROM jobs_{of}state WHERE {of}_id = NEW.id) THEN
        RAISE integrity_constraint_violation
            USING MESSAGE = format('{of} %s has no state', NEW.id), TABLE = 'jobs_{of}', CONSTRAINT = '{of}_has_a_state';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_{of}_keeps_its_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_{of} WHERE id = OLD.{of}_id)
       AND NOT EXISTS (SELECT FROM jobs_{of}state WHERE {of}_id = OLD.{of}_id) THEN
        RAISE integrity_constraint_violation
            USING MESSAGE = format('{of} %s has no state any more', OLD.{of}_id), TABLE = 'jobs_{of}state',
                  CONSTRAINT = '{of}_keeps_its_state';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION jobs_{of}_has_no_other_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Who makes one for a {of} that others can see finds the one that is there, unless he took it away himself: and
    -- that only one can do. So nothing need be locked.
    IF (SELECT count(*) FROM (SELECT FROM jobs_{of}state WHERE {of}_id = NEW.{of}_id LIMIT 2) AS found) > 1 THEN
        RAISE integrity_constraint_violation
            USING MESSAGE = format('{of} %s has a state already', NEW.{of}_id), TABLE = 'jobs_{of}state',
                  CONSTRAINT = '{of}_has_no_other_state';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER {of}_has_a_state AFTER INSERT ON jobs_{of}
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_{of}_has_a_state();
CREATE CONSTRAINT TRIGGER {of}_keeps_its_state AFTER DELETE OR UPDATE OF {of}_id ON jobs_{of}state
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_{of}_keeps_its_state();
CREATE CONSTRAINT TRIGGER {of}_has_no_other_state AFTER INSERT OR UPDATE OF {of}_id ON jobs_{of}state
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_{of}_has_no_other_state();
"""
_LET_GO = """
DROP TRIGGER {of}_has_no_other_state ON jobs_{of}state;
DROP TRIGGER {of}_keeps_its_state ON jobs_{of}state;
DROP TRIGGER {of}_has_a_state ON jobs_{of};
DROP FUNCTION jobs_{of}_has_no_other_state;
DROP FUNCTION jobs_{of}_keeps_its_state;
DROP FUNCTION jobs_{of}_has_a_state;
"""


def _of(text: LiteralString, of: LiteralString) -> str:
    return text.replace("{of}", of)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0043_bins_keep_their_last_start")]

    operations = [migrations.RunSQL(_of(_HOLD, of), _of(_LET_GO, of)) for of in ("lane", "bin")]
