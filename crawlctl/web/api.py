"""The addresses of the REST API below /api/v1/, and their views."""

from typing import Any

from django.urls import path, re_path, register_converter
from django.urls.resolvers import URLPattern, URLResolver
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter

from crawlctl.access.api_tokens.api import ApiTokenView
from crawlctl.access.tokens import TokenView
from crawlctl.web.description import DescriptionView
from jobs.api.attention import AttentionView
from jobs.api.chains import ChainView
from jobs.api.cluster import ClusterRequestView, DrainView, GroupView, RebalanceView
from jobs.api.cluster_history import ClusterHistoryView
from jobs.api.coordination import CoordinationView
from jobs.api.documents import DocumentView
from jobs.api.downloads import DownloadKindConverter
from jobs.api.errors import NothingHere
from jobs.api.failures import FailureView
from jobs.api.hosts import AllowView, DenyListView, HostView
from jobs.api.lists_of_all import ArchivedTaskView, NodeEventView, NodeView, TaskView, TaskWorkerView
from jobs.api.partitions import PartitionMovesView, PartitionsView
from jobs.api.policies import PolicyView
from jobs.api.removals import DeletedJobView
from jobs.api.reports.views import (
    BandwidthView,
    BusyView,
    DocumentDownloadView,
    DocumentStatusView,
    HistogramView,
    HistoryView,
    QueueDownloadView,
    QueueStatusView,
)
from jobs.api.runs import RunView
from jobs.api.schedules import CalendarView, SchedulesView
from jobs.api.seeds import SeedView
from jobs.api.settings import SettingsVersionView, SettingsView
from jobs.api.traps import TrapSuspectView
from jobs.api.views import JobEventView, JobView, OutputView, RepositoryView
from jobs.api.webmasters import WebmastersLimitsView, WithdrawView
from jobs.authorities.api import AccessView, AuthorityView, MappingView, ServiceTokenView, StatesView
from jobs.authorities.api import GroupView as AuthorityGroupView
from jobs.bulk.api import BulkView
from jobs.definitions.api import DefinitionView
from jobs.definitions.versions.api import VersionView
from jobs.explain.api import ExplainView, FetchAgainView, ForgetView
from jobs.exports.api import ExportView
from jobs.notices.api import ChannelView, MailingView, MessageView, RuleView
from jobs.retention.api import CleaningView, RetentionView
from jobs.search.api import SearchView
from jobs.search.archive_api import ArchiveFileView, ArchiveRecordView
from jobs.search.version_api import DocumentVersionsView, DocumentVersionView
from jobs.verification.api import VerificationView
from jobs.verification.archives.api import ArchiveVerificationView
from jobs.webmasters.api import WebmasterView
from nodes.distributed.api import DistributedJobsView, DistributedJobView, RebalanceJobsView, SwitchView
from nodes.tasks.api import TaskKindsView, TaskStatisticsView, TaskTemplateView


class DocsView(SpectacularSwaggerSplitView):
    """The API's description as a page on which it can be tried. Its scripts are files of their package."""

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        finished = super().finalize_response(request, response, *args, **kwargs)
        # The policy of our own pages (`crawlctl.web.security`), with the exceptions that Swagger UI needs.
        finished.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
            "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        )
        return finished


register_converter(DownloadKindConverter, "download")

_router = SimpleRouter()
_router.register("api-tokens", ApiTokenView, basename="api-token")
_router.register("jobs", JobView, basename="job")
_router.register("deleted-jobs", DeletedJobView, basename="deleted-job")
_router.register("job-chains", ChainView, basename="job-chain")
_router.register("seeds", SeedView, basename="seed")
_router.register("job-events", JobEventView, basename="job-event")
_router.register("runs", RunView, basename="run")
_router.register("policies", PolicyView, basename="policy")
_router.register("repositories", RepositoryView, basename="repository")
_router.register("outputs", OutputView, basename="output")
_router.register("trap-suspects", TrapSuspectView, basename="trap-suspect")
_router.register("archive-files", ArchiveFileView, basename="archive-file")
_router.register("archive-records", ArchiveRecordView, basename="archive-record")
_router.register("documents", DocumentView, basename="document")
_router.register("failures", FailureView, basename="failure")
_router.register("hosts", HostView, basename="host")
_router.register("groups", GroupView, basename="group")
_router.register("cluster/requests", ClusterRequestView, basename="cluster-request")
_router.register("nodes", NodeView, basename="node")
_router.register("settings/versions", SettingsVersionView, basename="settings-version")
_router.register("node-events", NodeEventView, basename="node-event")
_router.register("bulk", BulkView, basename="bulk")
_router.register("authority-groups", AuthorityGroupView, basename="authority-group")
_router.register("authority-connections", AuthorityView, basename="authority-connection")
_router.register("mapping-connections", MappingView, basename="mapping-connection")
_router.register("service-tokens", ServiceTokenView, basename="service-token")
_router.register("versions", VersionView, basename="version")
_router.register("exports", ExportView, basename="export")
_router.register("verifications", VerificationView, basename="verification")
_router.register("archive-verifications", ArchiveVerificationView, basename="archive-verification")
_router.register("notification-channels", ChannelView, basename="notification-channel")
_router.register("notification-rules", RuleView, basename="notification-rule")
_router.register("notification-messages", MessageView, basename="notification-message")
_router.register("report-mailings", MailingView, basename="report-mailing")
_router.register("tasks", TaskView, basename="task")
_router.register("archived-tasks", ArchivedTaskView, basename="archived-task")
_router.register("task-templates", TaskTemplateView, basename="task-template")
_router.register("task-workers", TaskWorkerView, basename="task-worker")

app_name = "api"
urlpatterns: list[URLPattern | URLResolver] = [
    *_router.urls,
    path("attention/", AttentionView.as_view(), name="attention"),
    path("authority/access/", AccessView.as_view(), name="authority-access"),
    path("authority/states/", StatesView.as_view(), name="authority-states"),
    path("cluster/coordination/", CoordinationView.as_view(), name="coordination"),
    path("cluster/history/", ClusterHistoryView.as_view(), name="cluster-history"),
    path("cluster/partitions/", PartitionsView.as_view(), name="partitions"),
    path("cluster/partitions/moves/", PartitionMovesView.as_view(), name="partition-moves"),
    path("cluster/rebalance/", RebalanceView.as_view(), name="cluster-rebalance"),
    path("definitions/", DefinitionView.as_view(), name="definitions"),
    path("deny-list/", DenyListView.as_view(), name="deny-list"),
    path("deny-list/remove/", AllowView.as_view(), name="deny-list-remove"),
    path("distributed-jobs/", DistributedJobsView.as_view(), name="distributed-jobs"),
    path("distributed-jobs/jobs/<str:job>/", DistributedJobView.as_view(), name="distributed-job"),
    path("distributed-jobs/rebalance/", RebalanceJobsView.as_view(), name="distributed-jobs-rebalance"),
    path("distributed-jobs/switch/", SwitchView.as_view(), name="distributed-jobs-switch"),
    path("documents/<document_id:id>/versions/", DocumentVersionsView.as_view(), name="document-versions"),
    path("documents/<document_id:id>/versions/<int:number>/", DocumentVersionView.as_view(), name="document-version"),
    path("explain/", ExplainView.as_view(), name="explain"),
    path("explain/fetch-again/", FetchAgainView.as_view(), name="explain-fetch-again"),
    path("explain/forget/", ForgetView.as_view(), name="explain-forget"),
    path("nodes/<uuid:pk>/drain/", DrainView.as_view(), name="node-drain"),
    path("schedules/", SchedulesView.as_view(), name="schedules"),
    path("schedules/calendar/", CalendarView.as_view(), name="schedules-calendar"),
    path("reports/history/", HistoryView.as_view(), name="report-history"),
    path("reports/activity/", BusyView.as_view(), name="report-activity"),
    path("reports/bandwidth/", BandwidthView.as_view(), name="report-bandwidth"),
    path("reports/results/", HistogramView.as_view(), name="report-results"),
    path("reports/documents/", DocumentStatusView.as_view(), name="report-documents"),
    path("reports/documents/<download:kind>/", DocumentDownloadView.as_view(), name="report-documents-download"),
    path("reports/queue/", QueueStatusView.as_view(), name="report-queue"),
    path("reports/queue/<download:kind>/", QueueDownloadView.as_view(), name="report-queue-download"),
    path("retention/", RetentionView.as_view(), name="retention"),
    path("retention/<str:subject>/clean/", CleaningView.as_view(), name="retention-clean"),
    path("search/", SearchView.as_view(), name="search"),
    path("settings/", SettingsView.as_view(), name="settings"),
    path("task-kinds/", TaskKindsView.as_view(), name="task-kinds"),
    path("task-statistics/", TaskStatisticsView.as_view(), name="task-statistics"),
    path("token/", TokenView.as_view(), name="token"),
    path("webmasters-limits/", WebmastersLimitsView.as_view(), name="webmasters-limits"),
    path("webmasters-limits/withdraw/", WithdrawView.as_view(), name="webmasters-limits-withdraw"),
    path("webmasters/<str:host>/", WebmasterView.as_view(), name="webmaster"),
    path("schema/", DescriptionView.as_view(), name="schema"),
    path("docs/", DocsView.as_view(url_name="api:schema"), name="docs"),
    re_path("", NothingHere.as_view()),
]
