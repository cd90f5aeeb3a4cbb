"""The topics of rules: kinds of lines of the attention list, limits that a rule sets, and events of journals."""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

# Lines of the attention list (`jobs.attention`).
ATTENTION: Final[Mapping[str, str | Promise]] = {
    "job_fails": _("A job fails"),
    "removals_wait": _("Removals wait for approval"),
    "schedule_missed": _("A job missed its window"),
    "output_refuses": _("An output refuses"),
    "connector_missing": _("A connector is missing"),
    "documents_denied": _("Documents were denied"),
    "traps_wait": _("Traps wait for a decision"),
    "host_too_slow": _("A host is too slow for freshness goals"),
    "host_fails": _("A host fails"),
    "host_stopped": _("A host is stopped"),
    "group_fails": _("A group cannot be handed out"),
    "partition_silent": _("A partition does not answer"),
    "partition_behind": _("The write-ahead log for a partition grows"),
    "node_lost": _("A node failed"),
    "node_silent": _("A node is silent"),
    "no_manager": _("No manager runs"),
    "no_worker": _("No worker runs"),
    "disk_full": _("A disk is full"),
    "output_behind": _("An output is behind"),
    "lines_lost": _("An output lost lines"),
    "output_out_of_sync": _("An output is out of sync"),
    "backup_old": _("Backups are old or incomplete"),
    "archive_store_fails": _("A store of archives fails"),
    "archive_is_full": _("A job waits for the stores of its archive"),
    "archive_is_damaged": _("An archive is damaged"),
    "authority_silent": _("An authority does not answer"),
    "setting_ignored": _("A stored setting has no effect"),
}
# Conditions with a limit of the rule (`jobs.attention.limits`).
LIMITS: Final[Mapping[str, str | Promise]] = {
    "no_documents": _("A running job processes no document"),
    "runs_long": _("A run takes long"),
}
# Events that have no end.
EVENTS: Final[Mapping[str, str | Promise]] = {
    "job_ended": _("A run ended"),
    "job_stopped": _("A run was stopped"),
    "task_failed": _("A task failed for the last time"),
}
TOPICS: Final[Mapping[str, str | Promise]] = {**ATTENTION, **LIMITS, **EVENTS}
# Topics whose key is the id of a job, so that a rule can be for one job.
OF_JOBS: Final = frozenset(
    {
        *("job_fails", "removals_wait", "schedule_missed", "output_refuses", "connector_missing", "documents_denied"),
        *("archive_is_full", "traps_wait", "host_too_slow"),
        *("no_documents", "runs_long", "job_ended", "job_stopped"),
    }
)
