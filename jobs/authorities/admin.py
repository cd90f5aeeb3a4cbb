"""Authorities on the set-up pages: groups, connections with a test, and tokens of services."""

from typing import Any, ClassVar, Final

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.widgets import UnfoldAdminSelectWidget

from jobs.admin.connector_form import BUILT_FOR, ConnectorForm, fieldset_for, form_for
from jobs.admin.dry_run import dry_run
from jobs.authorities import verbs
from jobs.authorities.models import AuthorityConnection, AuthorityGroup, MappingConnection, ServiceToken
from nodes.admin.confirmation import may_offer, row_number
from nodes.admin.lists import BoundedList
from nodes.errors import InUse, Invalid


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]
    """The form of a group, which has only a name."""

    class Meta:
        model = AuthorityGroup
        fields = ("name",)

    def store(self, *, made_by: str = "") -> AuthorityGroup:
        """Store the group of the form."""
        name = self.cleaned_data["name"]
        if self.instance.pk:
            return verbs.change_group(self.instance.pk, name=name, made_by=made_by)
        return verbs.create_group(name=name, made_by=made_by)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                with dry_run():
                    self.store()
            except Invalid as invalid:
                for name, sentences in invalid.problems.items():
                    self.add_error(name if name in self.fields else None, list(sentences))
        return values


class AuthorityConnectionForm(ConnectorForm):
    """The form of a connection. Its kind checks the form before anything is stored."""

    model_kind: ClassVar[verbs.Kind] = AuthorityConnection
    section = "configuration"
    chooser = "kind"
    shown: ClassVar[tuple[str, ...]] = (*("name", "kind", "group", "domain", "prerequisite", "time_limit", "at_once"),)

    class Meta:
        model = AuthorityConnection
        fields = ("name", "kind", "group", "domain", "prerequisite", "time_limit", "at_once")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "kind" in self.fields:
            choices = [(kind.name, kind.label) for kind in verbs.kinds_of(self.model_kind).values()]
            widget = UnfoldAdminSelectWidget(attrs={"data-redraws": "true"})
            self.fields["kind"] = forms.ChoiceField(choices=choices, widget=widget)

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

    def store(self, *, made_by: str = "") -> verbs.Connection:
        """Store the connection of the form."""
        values = self.cleaned_data
        facts: dict[str, Any] = {
            name: getattr(values[name], "pk", None) if name in {"group", "prerequisite"} else values[name]
            for name in self.shown
            if name != "kind" and name in values
        }
        facts |= {"configuration": self.column_value(values), "made_by": made_by}
        if self.instance.pk:
            return verbs.change(self.model_kind, self.instance.pk, **facts)
        return verbs.create(self.model_kind, kind=values["kind"], **facts)


class MappingConnectionForm(AuthorityConnectionForm):
    model_kind = MappingConnection
    shown = ("name", "kind", "prerequisite", "time_limit", "at_once")

    class Meta:
        model = MappingConnection
        fields = ("name", "kind", "prerequisite", "time_limit", "at_once")


class _SetUp(BoundedList):
    """The common part of the set-up pages of authorities. Verbs store and delete the rows."""

    search_fields = ("name",)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: ANN401, FBT001 (Django's)
        obj.pk = form.store(made_by=request.user.get_username()).pk

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            try:
                self.delete_model(request, row)
            except InUse as used:
                messages.warning(request, str(used))


class GroupAdmin(_SetUp):
    form = GroupForm
    fields = ("name",)

    def delete_model(self, request: HttpRequest, obj: AuthorityGroup) -> None:
        verbs.delete_group(obj.pk, made_by=request.user.get_username())

    def has_delete_permission(self, request: HttpRequest, obj: AuthorityGroup | None = None) -> bool:
        """False for a group that an authority or a repository uses."""
        allowed: bool = super().has_delete_permission(request, obj)
        if obj is None or not allowed:
            return allowed
        why = _("%(name)s cannot be deleted, because a connection uses it.") % {"name": obj.name}
        is_used = obj.authorities.exists() or obj.repositories.exists()
        return may_offer(request, "delete", is_possible=not is_used, why=str(why))


class ConnectionAdmin(_SetUp):
    """The pages of connections. The kind of a connection never changes."""

    form = AuthorityConnectionForm
    proposed = "ldap"
    list_display: tuple[str, ...] = ("name", "kind", "group", "domain", "prerequisite", "silent_since")
    list_select_related: tuple[str, ...] = ("group", "prerequisite")
    actions_detail = ("test",)

    def get_form(self, request: HttpRequest, obj: verbs.Connection | None = None, **kwargs: Any) -> Any:  # noqa: ANN401 (a generated type)
        return super().get_form(request, obj, form=form_for(self.form, self._kind(request, obj)), **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: verbs.Connection | None = None) -> Any:  # noqa: ANN401 (Django's)
        names = (*self.form.shown, BUILT_FOR)
        generated = fieldset_for(_("Configuration"), self._kind(request, obj), section="configuration")
        return ((None, {"fields": names}), *generated)

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> tuple[str, ...]:
        return ("kind",) if obj else ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, str]:
        return {**super().get_changeform_initial_data(request), "kind": request.GET.get("kind", self.proposed)}

    def delete_model(self, request: HttpRequest, obj: verbs.Connection) -> None:
        verbs.delete(type(obj), obj.pk, made_by=request.user.get_username())

    def has_ask_permission(self, request: HttpRequest, _object_id: object = None) -> bool:
        """True for users who may test connections."""
        return request.user.has_perm(verbs.MAY_ASK)

    @action(description=_("Test"), url_path="test", permissions=("ask",))  # type: ignore[untyped-decorator]
    def test(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """
        After a confirmation, check that the system can be reached with the account of the connection. Show the result
        above the page.
        """
        connection = get_object_or_404(self.model, pk=row_number(object_id))
        back = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        if request.method != "POST":
            context = {
                **self.admin_site.each_context(request),
                "title": _("Test"),
                "question": _("This reaches the system of %(name)s with its account.") % {"name": connection},
                "back": reverse(back, args=[connection.pk]),
            }
            return render(request, "admin/confirm_one.html", context)
        checked = verbs.check(self.form.model_kind, connection.pk, made_by=request.user.get_username())
        if checked.works:
            messages.success(request, _("The connection works."))
        if checked.said:
            messages.add_message(request, messages.WARNING if checked.works else messages.ERROR, checked.said)
        return redirect(back, connection.pk)

    def _kind(self, request: HttpRequest, connection: verbs.Connection | None) -> Any:  # noqa: ANN401 (a kind)
        kinds = verbs.kinds_of(self.form.model_kind)
        if connection is not None:
            return kinds.get(connection.kind)
        return kinds.get(request.POST.get("kind") or request.GET.get("kind") or self.proposed)


class MappingAdmin(ConnectionAdmin):
    form = MappingConnectionForm
    proposed = "regex"
    list_display = ("name", "kind", "prerequisite", "silent_since")
    list_select_related = ("prerequisite",)

    def has_delete_permission(self, request: HttpRequest, obj: MappingConnection | None = None) -> bool:
        """False for a mapping that another connection needs."""
        allowed: bool = super().has_delete_permission(request, obj)
        return allowed and (obj is None or not (obj.authorities.exists() or obj.followers.exists()))


class TokenAdmin(_SetUp):
    """The list of tokens of services. Only the page of authorities creates tokens, because their text is shown once."""

    list_display = ("name", "created_at", "created_by", "expires_at")
    fields = ("name", "created_at", "created_by", "expires_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def delete_model(self, request: HttpRequest, obj: ServiceToken) -> None:
        verbs.delete_token(obj.pk, made_by=request.user.get_username())


OF_MODELS: Final = {
    AuthorityGroup: GroupAdmin,
    AuthorityConnection: ConnectionAdmin,
    MappingConnection: MappingAdmin,
    ServiceToken: TokenAdmin,
}
