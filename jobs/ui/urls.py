"""Where the pages are."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path, register_converter
from django.urls.converters import StringConverter

from jobs.ui import views


class DocumentKeyConverter(StringConverter):
    """The 128-bit key of a document as 32 hex digits."""

    regex = "[0-9a-f]{32}"


register_converter(DocumentKeyConverter, "document_key")

urlpatterns = [
    path("", views.overview, name="overview"),
    path("jobs/<int:job_id>/", views.job, name="job"),
    path("jobs/<int:job_id>/transition/", views.transition, name="job-transition"),
    path("documents/", views.documents, name="documents"),
    path("documents/<int:job_id>/<document_key:document_hash>/", views.document, name="document"),
    path("nodes/", views.nodes, name="nodes"),
    path("search/", views.search, name="search"),
    path("login/", LoginView.as_view(template_name="ui/login.html", redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
