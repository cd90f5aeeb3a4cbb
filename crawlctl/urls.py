"""The addresses of the web server."""

from django.urls import include, path
from django.urls.resolvers import URLPattern, URLResolver

from crawlctl.access.adminsite import site
from crawlctl.access.language import choose_language
from crawlctl.access.login_page import LoginPage, LogOut
from crawlctl.drill.api import DrillView
from crawlctl.drill.views import drills, start_drill
from crawlctl.web.documentation import documentation
from crawlctl.web.finding import find_anything
from crawlctl.web.metrics import MetricsView
from crawlctl.web.other_partitions import ApiInView, page_in
from jobs.authorities.web import user_acls

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", site.urls),
    path("api/v1/drills/", DrillView.as_view({"get": "list"}), name="api-drills"),
    path("api/v1/", include("crawlctl.web.api")),
    path("manual/", documentation, name="manual"),
    path("manual/<path:path>", documentation, name="documentation"),
    path("find/", find_anything, name="find"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("cluster/drills/", drills, name="drills"),
    path("cluster/drills/start/", start_drill, name="drill-start"),
    path("cluster/jobs/", include("nodes.distributed.pages.urls")),
    path("tasks/", include("nodes.tasks.pages.urls")),
    path("account/", include("crawlctl.access.api_tokens.urls")),
    path("language/", choose_language, name="language"),
    path("login/", LoginPage.as_view(), name="login"),
    path("login/", include("crawlctl.access.single_sign_on.urls")),
    path("logout/", LogOut.as_view(), name="logout"),
    path("jobs/<int:job_id>/bulk/", include("jobs.bulk.urls")),
    path("retention/", include("jobs.retention.urls")),
    path("outputs/", include("jobs.verification.urls")),
    path("authorities/", include("jobs.authorities.pages.urls")),
    # Our address of the service, and its address in ManifoldCF.
    path("UserACLs", user_acls, name="user-acls"),
    path("mcf-authority-service/UserACLs", user_acls),
    path("", include("jobs.verification.archives.urls")),
    path("explain/", include("jobs.explain.urls")),
    path("partition/<str:partition>/api/v1/<path:path>", ApiInView.as_view(), name="api-in-partition"),
    path("partition/<str:partition>/<path:path>", page_in, name="page-in-partition"),
    path("webmasters/", include("jobs.webmasters.urls")),
    path("", include("jobs.search.urls")),
    path("versions/", include("jobs.definitions.versions.urls")),
    path("exports/", include("jobs.exports.urls")),
    path("notifications/", include("jobs.notices.pages.urls")),
    path("", include("jobs.ui.urls")),
]

handler404 = "crawlctl.web.refusals.answer_not_found"
handler500 = "crawlctl.web.failures.answer_failure"
