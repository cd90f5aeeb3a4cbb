"""The set-up pages of connections. A connection has a name, a connector, and the configuration of the connector."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget

from jobs.admin.connector_form import BUILT_FOR, ConnectorForm, fieldset_for, form_for
from jobs.admin.dry_run import dry_run
from jobs.admin.versions_link import WithVersions
from jobs.attention.outputs import sentence_of_lost_lines
from jobs.connectors.output.registry import DEFAULT_OUTPUT, installed
from jobs.connectors.repository import registry
from jobs.models import Job, LostLines, OutputConnection, RepositoryConnection
from jobs.verbs import connections
from jobs.verbs import restoring_everywhere as restoring
from jobs.verbs.connection_checks import Kind
from nodes.admin.confirmation import may_offer, row_number
from nodes.admin.lists import BoundedList
from nodes.database.clock import read_clock
from nodes.errors import InUse, Invalid, Refused
from nodes.web.formats import moment, number, share

# Largest number of jobs that the list names for a connection.
_JOBS_SHOWN: Final = 5


class ConnectionForm(ConnectorForm):
    """
    The form of a connection. The connector checks the form before anything is stored. Each field of the connector's
    configuration is a form field.
    """

    model_kind: ClassVar[Kind]
    section = "configuration"
    chooser = "connector"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "connector" in self.fields:
            choices = [(kind.name, kind.label) for kind in self.kinds().values()]
            widget = UnfoldAdminSelectWidget(attrs={"data-redraws": "true"})
            self.fields["connector"] = forms.ChoiceField(choices=choices, widget=widget)

    @staticmethod
    def kinds() -> Mapping[str, Any]:
        """Return the installed connectors, by name."""
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        if self.errors:
            return values
        try:
            with dry_run():
                self.store()
        except Invalid as invalid:
            self.add_problems(invalid.problems)
        return values

    def store(self, *, made_by: str = "") -> connections.Connection:
        """Store the connection of the form."""
        facts: dict[str, Any] = {
            "name": self.cleaned_data["name"],
            "configuration": self.column_value(self.cleaned_data),
            "made_by": made_by,
        }
        if "authority_group" in self.cleaned_data:
            facts["authority_group_id"] = getattr(self.cleaned_data["authority_group"], "pk", None)
        if self.instance.pk:
            return connections.change(self.model_kind, self.instance.pk, **facts)
        return connections.create(self.model_kind, connector=self.cleaned_data["connector"], **facts)


class RepositoryConnectionForm(ConnectionForm):
    model_kind = RepositoryConnection
    kinds = staticmethod(registry.installed)

    class Meta:
        model = RepositoryConnection
        fields = ("name", "connector", "authority_group")


class OutputConnectionForm(ConnectionForm):
    model_kind = OutputConnection
    kinds = staticmethod(installed)

    class Meta:
        model = OutputConnection
        fields = ("name", "connector")


class ConnectionAdmin(WithVersions, BoundedList):
    """The pages of connections. The connector of a connection never changes."""

    form: type[ConnectionForm]
    # The field of a job that refers to connections of this kind.
    of_jobs: ClassVar[str]
    # Title above the connector's fields, and the connector that is selected at first.
    section_title: ClassVar[Promise]
    proposed: ClassVar[str]
    list_display: tuple[str, ...] = ("name", "connector", "used_by")
    # Fields of the form besides the name and the connector.
    more_fields: tuple[str, ...] = ()
    search_fields = ("name",)

    def get_form(self, request: HttpRequest, obj: connections.Connection | None = None, **kwargs: Any) -> Any:  # noqa: ANN401 (a generated type)
        return super().get_form(request, obj, form=form_for(self.form, self._kind(request, obj)), **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: connections.Connection | None = None) -> Any:  # noqa: ANN401 (Django's)
        generated = fieldset_for(self.section_title, self._kind(request, obj), section=self.form.section)
        names = ("name", "connector", *self.more_fields, BUILT_FOR, *self.get_shown(obj))
        return ((None, {"fields": names}), *generated)

    def get_shown(self, obj: connections.Connection | None) -> tuple[str, ...]:
        """Return the read-only fields of the page."""
        return ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, str]:
        return {"connector": request.GET.get("connector", self.proposed), "name": request.GET.get("name", "")}

    def _kind(self, request: HttpRequest, connection: connections.Connection | None) -> Any:  # noqa: ANN401 (a kind of source or output)
        """Return the connector of a connection, or the selected connector; None if it is not installed."""
        if connection is not None:
            return self.form.kinds().get(connection.connector)
        chosen = request.POST.get("connector") or request.GET.get("connector") or self.proposed
        return self.form.kinds().get(chosen)

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> tuple[str, ...]:
        return ("connector",) if obj else ()

    def save_model(self, request: HttpRequest, obj: connections.Connection, form: ConnectionForm, change: bool) -> None:  # noqa: FBT001 (Django's)
        obj.pk = form.store(made_by=request.user.get_username()).pk

    def delete_model(self, request: HttpRequest, obj: connections.Connection) -> None:
        connections.delete(type(obj), obj.pk, made_by=request.user.get_username())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for connection in queryset:
            try:
                connections.delete(type(connection), connection.pk, made_by=request.user.get_username())
            except InUse as used:
                messages.warning(request, str(used))

    def has_delete_permission(self, request: HttpRequest, obj: connections.Connection | None = None) -> bool:
        """False for a connection that jobs use: it cannot be deleted."""
        allowed: bool = super().has_delete_permission(request, obj)
        if obj is None or not allowed:
            return allowed
        why = _("%(name)s cannot be deleted, because a job uses it.") % {"name": obj.name}
        return may_offer(request, "delete", is_possible=not obj.jobs.exists(), why=str(why))

    def do_when_asked(
        self,
        request: HttpRequest,
        object_id: str,
        *,
        title: Promise,
        question: Promise,
        act: Callable[..., object],
        message: Promise,
    ) -> HttpResponseBase:
        """Ask for a confirmation on a page. The POST of this page executes the action."""
        key = row_number(object_id)
        connection = get_object_or_404(self.model, pk=key)
        back = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        if request.method != "POST":
            context = {
                **self.admin_site.each_context(request),
                "title": title,
                "question": question % {"name": connection},
                "back": reverse(back, args=[key]),
            }
            return render(request, "admin/confirm_one.html", context)
        try:
            act(key, made_by=request.user.get_username(), now=read_clock())
        except Refused as refused:
            messages.warning(request, str(refused))
        else:
            messages.success(request, message % {"name": connection})
        return redirect(back, key)

    def used_by(self, connection: Any) -> str:  # noqa: ANN401 (a connection with annotations)
        names = connection.some_jobs
        more = [str(_("others"))] if len(names) > _JOBS_SHOWN else []
        return ", ".join([*names[:_JOBS_SHOWN], *more]) or "—"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the connections, each with the names of its first jobs."""
        found: QuerySet[Any] = super().get_queryset(request)
        jobs = Job.objects.filter(**{self.of_jobs: OuterRef("pk")}).order_by().values("name")
        shown: QuerySet[Any] = found.annotate(some_jobs=ArraySubquery(jobs[: _JOBS_SHOWN + 1]))
        return shown


class RepositoryConnectionAdmin(ConnectionAdmin):
    form = RepositoryConnectionForm
    of_jobs = "repository"
    definition = "repository"
    section_title = _("Defaults of its jobs")
    proposed = "web"
    list_display = ("name", "connector", "status", "used_by")
    more_fields = ("authority_group",)
    actions_detail = ("versions", "clear_history")

    @action(description=_("Clear history"), url_path="clear-history", permissions=("change",))  # type: ignore[untyped-decorator]
    def clear_history(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Delete the history of this source."""
        return self.do_when_asked(
            request,
            object_id,
            title=_("Clear history"),
            question=_(
                "This removes all past activity of %(name)s from the history and the reports. Documents and outputs stay unchanged."
            ),
            act=connections.clear_history,
            message=_("The main manager is clearing the history of %(name)s."),
        )

    @admin.display(description=_("status"))
    def status(self, connection: RepositoryConnection) -> str:
        """Return the reason why this server cannot reach the source as configured, or “working”."""
        return connections.status(connection) or str(_("working"))


class OutputConnectionAdmin(ConnectionAdmin):
    form = OutputConnectionForm
    of_jobs = "outputs"
    definition = "output"
    section_title = _("Configuration")
    proposed = DEFAULT_OUTPUT
    actions_detail = ("versions", "verify", "index_again", "clear", "restore")

    def get_shown(self, obj: connections.Connection | None) -> tuple[str, ...]:
        return ("clearing", "in_sync") if obj else ()

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> tuple[str, ...]:
        return (*super().get_readonly_fields(request, obj), "clearing", "in_sync")

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "GET" and object_id.isdecimal():
            self._warn_of_lost_lines(request, int(object_id))
        shown: HttpResponseBase = super().change_view(request, object_id, *args, **kwargs)
        return shown

    def _warn_of_lost_lines(self, request: HttpRequest, output_id: int) -> None:
        """
        Show a message above the page for each file of the output that lost lines, with a link to the action that writes
        them again.
        """
        if not self.has_view_permission(request):
            return
        button = reverse("admin:jobs_outputconnection_index_again", args=[output_id])
        for lost in LostLines.objects.filter(output=output_id).select_related("output"):
            said = sentence_of_lost_lines(lost)
            if self.has_change_permission(request):
                said = format_html('{} <a class="underline" href="{}">{}</a>', said, button, _("Re-index all"))
            messages.error(request, said)

    @action(description=_("Verify"), url_path="verify", permissions=("view",))  # type: ignore[untyped-decorator]
    def verify(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Redirect to the page that compares the output with its record in the database."""
        return redirect("output-verification", row_number(object_id))

    @action(description=_("Re-index all"), url_path="index-again", permissions=("change",))  # type: ignore[untyped-decorator]
    def index_again(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Let the next fetch of each document write the document to this output again."""
        return self.do_when_asked(
            request,
            object_id,
            title=_("Re-index all"),
            question=_("The next run of each job fetches all its documents and writes them to %(name)s again."),
            act=connections.index_again,
            message=_("Re-indexing is requested. The next run of each job writes all its documents to %(name)s again."),
        )

    @action(description=_("Remove all"), url_path="clear", permissions=("change",))  # type: ignore[untyped-decorator]
    def clear(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Remove all documents from the output."""
        return self.do_when_asked(
            request,
            object_id,
            title=_("Remove all"),
            question=_("This removes all content of %(name)s. “Restore all” restores it as long as removals are kept."),
            act=connections.clear,
            message=_("Workers are removing all content of %(name)s."),
        )

    @action(description=_("Restore all"), url_path="restore", permissions=("change",))  # type: ignore[untyped-decorator]
    def restore(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Restore all documents that “Remove all” removed."""
        return self.do_when_asked(
            request,
            object_id,
            title=_("Restore all"),
            question=_("Everything that “Remove all” took out of %(name)s comes back, without a request to a source."),
            act=lambda *key, **by: restoring.restore_cleared(*key, **by).checked(),
            message=_("Workers are restoring %(name)s."),
        )

    @display(description=_("Clearing"))  # type: ignore[untyped-decorator]
    def clearing(self, output: OutputConnection) -> str:
        if output.clear_before is None and output.orphans_after is None:
            return str(_("not requested"))
        return output.clearing_refused or str(_("in progress"))

    @display(description=_("In sync"))  # type: ignore[untyped-decorator]
    def in_sync(self, output: OutputConnection) -> str:
        """Return the share of documents that were in sync at the last verification."""
        last = output.verifications.filter(ended_at__isnull=False, refused="").first()
        if last is None:
            return str(_("not verified"))
        return _("%(share)s of %(n)s documents on %(moment)s UTC") % {
            "share": share(last.documents - last.faults, last.documents),
            "n": number(last.documents),
            "moment": moment(last.ended_at, now=read_clock()),
        }
