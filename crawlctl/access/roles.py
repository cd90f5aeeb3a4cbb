"""
The roles and their permissions: the same on pages, in the API and on the socket.

A role is a Django group. After every migrate the groups hold exactly the permissions listed here. So no role may use a
new table or action until a developer lists it. A user may have several roles. A superuser needs none.
"""

from typing import Any, Final

from django.apps.registry import Apps
from django.apps.registry import apps as installed_apps
from django.db import transaction

VIEWER: Final = "viewer"
OPERATOR: Final = "operator"
ADMINISTRATOR: Final = "administrator"

_READS: Final = frozenset(
    {
        # This permission shows the states of authorities, but not their configurations.
        "authorities.view_authoritygroup",
        # These permissions apply to the user's own tokens only.
        "crawlctl.add_apitoken",
        "crawlctl.delete_apitoken",
        "crawlctl.view_apitoken",
        "exports.view_export",
        "jobs.view_activity",
        "jobs.view_bin",
        "jobs.view_indexeddocument",
        "jobs.view_job",
        "jobs.view_jobevent",
        "jobs.view_lane",
        "jobs.view_outputconnection",
        "jobs.view_queueitem",
        "jobs.view_repositoryconnection",
        "jobs.view_searchdocument",
        "jobs.view_seed",
        "jobs.view_throttlegroup",
        "jobs.view_throttlepolicy",
        "nodes.view_clusterrequest",
        "nodes.view_mainterm",
        "nodes.view_node",
        "nodes.view_nodeevent",
        "nodes.view_settingsversion",
        "notices.view_notificationchannel",
        "notices.view_notificationcondition",
        "notices.view_notificationmessage",
        "notices.view_notificationrule",
        "notices.view_reportmailing",
        "tasks.view_archivedtask",
        "tasks.view_task",
        "tasks.view_tasktemplate",
        "tasks.view_taskworker",
    }
)
_STARTS_AND_STOPS: Final = _READS | {
    "authorities.ask_authority",
    "authorities.view_authorityconnection",
    "authorities.view_mappingconnection",
    "exports.add_export",
    "exports.delete_export",
    "jobs.control_job",
    "notices.use_notification",
    "jobs.stop_bin",
    "tasks.run_task",
}
_CHANGES: Final = (
    _STARTS_AND_STOPS
    | {
        "crawlctl.manage_apitoken",
        "drill.view_drill",
        "jobs.limit_everywhere",
        "jobs.search_as_user",
        "nodes.add_settingsversion",
        "nodes.control_cluster",
    }
    | {"tasks.change_tasktemplate", "tasks.delete_tasktemplate"}
    | {
        f"jobs.{verb}_{noun}"
        for noun in ("job", "seed", "throttlepolicy", "repositoryconnection", "outputconnection")
        for verb in ("add", "change", "delete")
    }
    | {
        f"authorities.{verb}_{noun}"
        for noun in ("authoritygroup", "authorityconnection", "mappingconnection")
        for verb in ("add", "change", "delete")
    }
    | {f"authorities.{verb}_servicetoken" for verb in ("view", "add", "delete")}
    | {
        f"notices.{verb}_{noun}"
        for noun in ("notificationchannel", "notificationrule", "reportmailing")
        for verb in ("add", "change", "delete")
    }
)

# Each role includes the one before it.
ROLES: Final = {VIEWER: _READS, OPERATOR: _STARTS_AND_STOPS, ADMINISTRATOR: _CHANGES}


def write_roles(*, using: str, apps: Apps = installed_apps, **_: Any) -> None:
    """
    Set each role's group to exactly its permissions: a handler of Django's `post_migrate` for the last app.

    After a flush, as in tests, Django calls it without `apps`.
    """
    try:
        group_model, permission_model = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        # The migrations were undone back to a state without the table of groups.
        return
    with transaction.atomic(using=using):
        found = permission_model.objects.using(using).select_related("content_type")
        stored = {f"{permission.content_type.app_label}.{permission.codename}": permission for permission in found}
        for role, permissions in ROLES.items():
            group, _created = group_model.objects.using(using).get_or_create(name=role)
            # Skip permissions that do not exist, because a migration was undone.
            group.permissions.set(stored[name] for name in permissions & stored.keys())
