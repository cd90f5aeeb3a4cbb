"""
What is counted of the lanes that there are is added up, once; from then on whoever folds counts writes both.

Nobody folds meanwhile. A manager of an older version that goes on after this would write one of both only:
`manage.py check_counters` would find it.
"""

from django.db import migrations

_ADD_UP = """
LOCK TABLE jobs_counter IN SHARE MODE;
INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, run_no, measure, stage, outcome, code, sum(amount)
  FROM jobs_counter GROUP BY job_id, run_no, measure, stage, outcome, code
HAVING sum(amount) <> 0
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0036_counts_of_jobs")]

    operations = [migrations.RunSQL(_ADD_UP, "DELETE FROM jobs_jobcounter")]
