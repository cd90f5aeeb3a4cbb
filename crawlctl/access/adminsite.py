"""
The set-up pages: django-unfold's admin, open to every user with a role, within the permissions of that role.

Every table is registered here, and not when its module is imported. So the composition root decides which tables the
set-up pages show.
"""

from typing import Any, Final

from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.sites import UnfoldAdminSite

from crawlctl.access.accounts import journal_user, user_facts
from crawlctl.access.shown_names import translate_names
from jobs.admin import (
    ClusterRequestAdmin,
    DocumentAdmin,
    JobAdmin,
    JobEventAdmin,
    NodeAdmin,
    NodeEventAdmin,
    OutputConnectionAdmin,
    RepositoryConnectionAdmin,
    SeedAdmin,
    ThrottleGroupAdmin,
    ThrottlePolicyAdmin,
)
from jobs.authorities import admin as authorities
from jobs.models import (
    Job,
    JobEvent,
    OutputConnection,
    QueueItem,
    RepositoryConnection,
    Seed,
    ThrottleGroup,
    ThrottlePolicy,
)
from jobs.notices import admin as notices
from nodes.admin.lists import BoundedList
from nodes.models import ClusterRequest, Node, NodeEvent
from nodes.tasks.admin import ArchivedTaskAdmin, TaskAdmin, TaskTemplateAdmin, TaskWorkerAdmin
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker


class SetUpSite(UnfoldAdminSite):  # type: ignore[misc]
    """The admin without Django's login page: users log in on the page of the web interface."""

    site_title = _("crawlctl set-up")
    index_title = _("Set-up")

    def has_permission(self, request: HttpRequest) -> bool:
        """True for users who may view jobs. On each page, the permissions of its model apply as well."""
        return request.user.is_active and request.user.has_perm("jobs.view_job")

    def register_documents(self) -> None:
        """Register the queue. Its primary key has two columns, which `register` refuses and `DocumentAdmin` handles."""
        self._registry[QueueItem] = DocumentAdmin(QueueItem, self)

    def login(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        if request.user.is_authenticated and self.has_permission(request):
            return redirect("admin:index")
        return redirect_to_login(request.GET.get("next", reverse("admin:index")), reverse("login"))


class UserAdmin(DjangoUserAdmin, BoundedList):  # type: ignore[type-arg, misc]
    """Users and their roles. A role is a group. This page assigns no single permissions."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "roles", "is_active", "is_superuser", "last_login")
    list_filter = ("groups", "is_active")
    sortable_by = ("username",)  # type: ignore[misc]
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Roles"), {"fields": ("groups", "is_superuser", "is_active")}),
        (_("Person"), {"fields": ("first_name", "last_name", "email")}),
    )
    filter_horizontal = ()

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """Return `is_superuser` as read-only for users who are not superusers: only superusers make superusers."""
        return () if request.user.is_superuser else ("is_superuser",)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        allowed: bool = super().has_change_permission(request, obj)
        return allowed and (obj is None or request.user.is_superuser or not obj.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        allowed: bool = super().has_delete_permission(request, obj)
        return allowed and (obj is None or request.user.is_superuser or not obj.is_superuser)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        found: QuerySet[User] = super().get_queryset(request)
        return found.prefetch_related("groups")

    # --- The journal ---------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: User, form: "ModelForm[User]", change: bool) -> None:  # noqa: FBT001 (Django's)
        # The roles are stored after this call. The journal is written when Django writes its own log.
        request.facts_before = user_facts(User.objects.get(pk=obj.pk)) if change else {}  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def log_addition(self, request: HttpRequest, obj: User, message: Any) -> Any:  # noqa: ANN401 (Django's)
        _journal(request, obj, before={}, after=user_facts(obj))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: User, message: Any) -> Any:  # noqa: ANN401 (Django's)
        """
        Write a line into the journal, too. The page that sets a password saves no model, so no other code writes this
        line.
        """
        after = user_facts(User.objects.get(pk=obj.pk))
        before = getattr(request, "facts_before", {**after, "password": None})
        _journal(request, obj, before=before, after=after)
        return super().log_change(request, obj, message)

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        _journal(request, obj, before=user_facts(obj), after={})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for user in queryset:
            _journal(request, user, before=user_facts(user), after={})
        super().delete_queryset(request, queryset)

    def roles(self, user: User) -> str:
        return ", ".join(sorted(group.name for group in user.groups.all())) or "—"


def _journal(request: HttpRequest, user: User, *, before: dict[str, Any], after: dict[str, Any]) -> None:
    journal_user(user, before=before, after=after, made_by=request.user.get_username())


site = SetUpSite()
site.register(Job, JobAdmin)
site.register(ThrottlePolicy, ThrottlePolicyAdmin)
site.register(RepositoryConnection, RepositoryConnectionAdmin)
site.register(OutputConnection, OutputConnectionAdmin)
for _model, _admin in (*notices.OF_MODELS.items(), *authorities.OF_MODELS.items()):
    site.register(_model, _admin)
site.register(User, UserAdmin)
site.register_documents()
site.register(Seed, SeedAdmin)
site.register(ThrottleGroup, ThrottleGroupAdmin)
site.register(Node, NodeAdmin)
site.register(ClusterRequest, ClusterRequestAdmin)
site.register(JobEvent, JobEventAdmin)
site.register(NodeEvent, NodeEventAdmin)
site.register(Task, TaskAdmin)
site.register(ArchivedTask, ArchivedTaskAdmin)
site.register(TaskTemplate, TaskTemplateAdmin)
site.register(TaskWorker, TaskWorkerAdmin)

# The English names of tables and columns that the set-up pages show.
SHOWN_NAMES: Final = translate_names(site)
