"""The addresses of the pages."""

import uuid

from django.urls import path, register_converter

from jobs.ui import (
    archive_views,
    chain_views,
    cluster_history_views,
    cluster_views,
    coordination_views,
    failures_views,
    hosts_views,
    partitions_views,
    pipeline_views,
    removals_views,
    run_views,
    runs_views,
    schedules_views,
    settings_views,
    views,
    webmasters_views,
)
from jobs.ui.reports import views as reports


class DocumentKeyConverter:
    """The 128-bit key of a document as 32 hex digits."""

    regex = "[0-9a-f]{32}"

    def to_python(self, value: str) -> uuid.UUID:
        return uuid.UUID(hex=value)

    def to_url(self, value: uuid.UUID) -> str:
        return value.hex


register_converter(DocumentKeyConverter, "document_key")

urlpatterns = [
    path("", views.overview, name="overview"),
    path("jobs/", runs_views.jobs, name="jobs"),
    path("runs/", runs_views.runs, name="runs"),
    path("runs/grid/", runs_views.run_grid, name="run-grid"),
    path("runs/<int:run_id>/", run_views.run, name="run"),
    path("runs/comparison/", run_views.comparison, name="run-comparison"),
    path("schedules/", schedules_views.schedules, name="schedules"),
    path("schedules/calendar/", schedules_views.calendar, name="schedule-calendar"),
    path("schedules/pause/", schedules_views.pause_schedule, name="schedule-pause"),
    path("schedules/resume/", schedules_views.resume_schedule, name="schedule-resume"),
    path("jobs/<int:job_id>/", views.job, name="job"),
    path("jobs/<int:job_id>/transition/", views.transition, name="job-transition"),
    path("jobs/<int:job_id>/removals/", removals_views.removals, name="job-removals"),
    path("jobs/<int:job_id>/restore/", removals_views.restore, name="job-restore"),
    path("jobs/<int:job_id>/archive/", archive_views.job_archive, name="job-archive"),
    path(
        "documents/<int:job_id>/<document_key:document_hash>/archive/",
        archive_views.document_archive,
        name="document-archive",
    ),
    path("jobs/<int:job_id>/pipeline/", pipeline_views.pipeline, name="job-pipeline"),
    path("jobs/<int:job_id>/chains/", chain_views.add, name="job-chain-add"),
    path("jobs/<int:job_id>/chains/<int:chain_id>/remove/", chain_views.remove, name="job-chain-remove"),
    path("jobs/deleted/", removals_views.deleted_jobs, name="deleted-jobs"),
    path("jobs/deleted/<int:job_id>/restore/", removals_views.restore_deleted, name="deleted-job-restore"),
    path("jobs/<int:job_id>/send-back/", views.send_back, name="job-send-back"),
    path("documents/", views.documents, name="documents"),
    path("documents/change/", views.change_documents, name="documents-change"),
    path("documents/<int:job_id>/<document_key:document_hash>/", views.document, name="document"),
    path("failures/", failures_views.failures, name="failures"),
    path("hosts/", hosts_views.hosts, name="hosts"),
    path("hosts/denied/", hosts_views.denied, name="hosts-denied"),
    path("hosts/webmasters/", webmasters_views.limits, name="hosts-webmasters"),
    path("hosts/<int:host_id>/", hosts_views.host, name="host"),
    path("hosts/<int:host_id>/stop/", hosts_views.stop, name="host-stop"),
    path("hosts/<int:host_id>/release/", hosts_views.release, name="host-release"),
    path("hosts/<int:host_id>/end-back-off/", hosts_views.end_back_off, name="host-end-back-off"),
    path("nodes/", views.nodes, name="nodes"),
    path("cluster/", cluster_views.cluster, name="cluster"),
    path("cluster/coordination/", coordination_views.coordination, name="coordination"),
    path("cluster/coordination/tree/", coordination_views.tree, name="coordination-tree"),
    path("cluster/history/", cluster_history_views.cluster_history, name="cluster-history"),
    path("cluster/partitions/", partitions_views.partitions, name="partitions"),
    path("cluster/rebalance/", cluster_views.rebalance, name="cluster-rebalance"),
    path("cluster/groups/<int:group_id>/", cluster_views.group, name="cluster-group"),
    path("cluster/nodes/<uuid:node_id>/drain/", cluster_views.drain, name="cluster-drain"),
    path("nodes/<uuid:node_id>/pages/", views.node_pages, name="node-pages"),
    path("settings/", settings_views.settings, name="settings"),
    path("reports/", reports.reports, name="reports"),
    path("reports/history/", reports.history, name="report-history"),
    path("reports/activity/", reports.activity, name="report-activity"),
    path("reports/bandwidth/", reports.bandwidth, name="report-bandwidth"),
    path("reports/results/", reports.results, name="report-results"),
    path("reports/documents/", reports.documents, name="report-documents"),
    path("reports/queue/", reports.queue, name="report-queue"),
]
