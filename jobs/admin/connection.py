"""Connections: a name, a connector, and what the connector wants to know."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget

from jobs import connections
from jobs.admin.drawn import DRAWN_FOR, DrawnForm, fieldset_for, form_for
from jobs.admin.rehearsal import rehearsal
from jobs.connections import ConnectionInUse, InvalidConnection, Kind
from jobs.connectors.output.registry import DEFAULT_OUTPUT, installed
from jobs.connectors.repository import registry
from jobs.models import OutputConnection, RepositoryConnection
from jobs.queries.clock import read_clock


class ConnectionForm(DrawnForm):
    """Asks the connector before anything is stored; what it wants to know has a field each."""

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
        """The connectors there are, by name."""
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        if self.errors:
            return values
        try:
            with rehearsal():
                self.store()
        except InvalidConnection as invalid:
            self.add_problems(invalid.problems)
        except ConnectionInUse as used:
            self.add_error(None, str(used))
        return values

    def store(self) -> connections.Connection:
        """Store what the form says."""
        facts: dict[str, Any] = {
            "name": self.cleaned_data["name"],
            "configuration": self.said(self.cleaned_data),
        }
        if self.instance.pk:
            return connections.change(self.model_kind, self.instance.pk, **facts)
        return connections.create(self.model_kind, connector=self.cleaned_data["connector"], **facts)


class RepositoryConnectionForm(ConnectionForm):
    model_kind = RepositoryConnection
    kinds = staticmethod(registry.installed)

    class Meta:
        model = RepositoryConnection
        fields = ("name", "connector")


class OutputConnectionForm(ConnectionForm):
    model_kind = OutputConnection
    kinds = staticmethod(installed)

    class Meta:
        model = OutputConnection
        fields = ("name", "connector")


class ConnectionAdmin(ModelAdmin):  # type: ignore[misc]
    """The connector of a connection stays what it was when it was made."""

    form: type[ConnectionForm]
    # What is drawn for the connector stands under this, and one is proposed at first.
    drawn_title: ClassVar[Promise]
    proposed: ClassVar[str]
    list_display: tuple[str, ...] = ("name", "connector", "used_by")
    search_fields = ("name",)

    def get_form(self, request: HttpRequest, obj: connections.Connection | None = None, **kwargs: Any) -> Any:  # noqa: ANN401 (a type that is made)
        return super().get_form(request, obj, form=form_for(self.form, self._kind(request, obj)), **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: connections.Connection | None = None) -> Any:  # noqa: ANN401 (Django's)
        drawn = fieldset_for(self.drawn_title, self._kind(request, obj), section=self.form.section)
        return ((None, {"fields": ("name", "connector", DRAWN_FOR, *self.get_shown(obj))}), *drawn)

    def get_shown(self, obj: connections.Connection | None) -> tuple[str, ...]:
        """What the page tells beside of what can be said."""
        return ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, str]:
        return {"connector": request.GET.get("connector", self.proposed), "name": request.GET.get("name", "")}

    def _kind(self, request: HttpRequest, connection: connections.Connection | None) -> Any:  # noqa: ANN401 (of sources or outputs)
        """The connector of a connection, or the one that is chosen for it; None where it is missing."""
        if connection is not None:
            return self.form.kinds().get(connection.connector)
        chosen = request.POST.get("connector") or request.GET.get("connector") or self.proposed
        return self.form.kinds().get(chosen)

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> tuple[str, ...]:
        return ("connector",) if obj else ()

    def save_model(self, request: HttpRequest, obj: connections.Connection, form: ConnectionForm, change: bool) -> None:  # noqa: FBT001 (Django's)
        obj.pk = form.store().pk

    def delete_model(self, request: HttpRequest, obj: connections.Connection) -> None:
        connections.delete(type(obj), obj.pk)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for connection in queryset:
            try:
                connections.delete(type(connection), connection.pk)
            except ConnectionInUse as used:
                messages.warning(request, str(used))

    def has_delete_permission(self, request: HttpRequest, obj: connections.Connection | None = None) -> bool:
        """What jobs use cannot go, so its page offers no deleting."""
        allowed: bool = super().has_delete_permission(request, obj)
        return allowed and (obj is None or not obj.jobs.exists())

    def ask_first(
        self, request: HttpRequest, connection: connections.Connection, *, title: Promise, question: str
    ) -> HttpResponseBase:
        """The page that asks whether something is to be done that cannot be taken back."""
        back = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[connection.pk])
        context = {**self.admin_site.each_context(request), "title": title, "question": question, "back": back}
        return render(request, "admin/jobs/ask_first.html", context)

    def used_by(self, connection: connections.Connection) -> str:
        return ", ".join(job.name for job in connection.jobs.all()) or "—"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request)
        return found.prefetch_related("jobs")


class RepositoryConnectionAdmin(ConnectionAdmin):
    form = RepositoryConnectionForm
    drawn_title = _("What its jobs begin with")
    proposed = "web"
    list_display = ("name", "connector", "status", "used_by")
    actions_detail = ("clear_history",)

    @action(description=_("Clear history"), url_path="clear-history", permissions=("change",))  # type: ignore[untyped-decorator]
    def clear_history(self, request: HttpRequest, object_id: int) -> HttpResponseBase:
        """What was done for this source is forgotten; a page asks first."""
        repository = RepositoryConnection.objects.filter(pk=object_id).first()
        if repository is None:
            raise Http404
        if request.method != "POST":
            question = _(
                "All that was done for %(source)s by now leaves the history and its reports. Documents and outputs stay as they are."
            )
            return self.ask_first(
                request, repository, title=_("Clear history"), question=question % {"source": repository}
            )
        connections.clear_history(object_id, now=read_clock())
        messages.success(request, _("What was done for %(source)s is being forgotten.") % {"source": repository})
        return redirect("admin:jobs_repositoryconnection_change", object_id)

    @admin.display(description=_("status"))
    def status(self, connection: RepositoryConnection) -> str:
        """Whether the source can be reached as configured, as far as this server sees."""
        return connections.status(connection) or str(_("working"))


class OutputConnectionAdmin(ConnectionAdmin):
    form = OutputConnectionForm
    drawn_title = _("Where documents go")
    proposed = DEFAULT_OUTPUT
    actions_detail = ("index_again", "clear")

    def get_shown(self, obj: connections.Connection | None) -> tuple[str, ...]:
        return ("clearing",) if obj else ()

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> tuple[str, ...]:
        return (*super().get_readonly_fields(request, obj), "clearing")

    @action(description=_("Re-index all"), url_path="index-again", permissions=("change",))  # type: ignore[untyped-decorator]
    def index_again(self, request: HttpRequest, object_id: int) -> HttpResponseBase:
        """Every document is written here anew when a run next looks at it."""
        output = connections.index_again(object_id, now=read_clock())
        messages.success(
            request, _("The next run of each job writes everything to %(output)s anew.") % {"output": output}
        )
        return redirect("admin:jobs_outputconnection_change", object_id)

    @action(description=_("Remove all"), url_path="clear", permissions=("change",))  # type: ignore[untyped-decorator]
    def clear(self, request: HttpRequest, object_id: int) -> HttpResponseBase:
        """Everything that is here leaves; a page asks first."""
        output = OutputConnection.objects.filter(pk=object_id).first()
        if output is None:
            raise Http404
        if request.method != "POST":
            question = _(
                "Everything that %(output)s holds by now is taken out of it. The next run of each job brings back what it still finds."
            )
            return self.ask_first(request, output, title=_("Remove all"), question=question % {"output": output})
        connections.clear(object_id, now=read_clock())
        messages.success(request, _("Workers are taking everything out of %(output)s.") % {"output": output})
        return redirect("admin:jobs_outputconnection_change", object_id)

    @display(description=_("Clearing"))  # type: ignore[untyped-decorator]
    def clearing(self, output: OutputConnection) -> str:
        if output.clear_before is None and output.orphans_after is None:
            return str(_("not asked for"))
        return output.clearing_refused or str(_("under way"))
