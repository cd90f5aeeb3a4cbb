"""
All operations of operators on connections. Set-up pages and the REST API call these functions.

A connection's fields apply to all jobs that use it. Workers apply an edit immediately, even to jobs that run or are
paused. The next run of each job reads and indexes everything again.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from types import EllipsisType
from typing import Any, TypeVar

from django.db import connection as database
from django.db import transaction
from django.db.models import F

from jobs.connectors.confined import why_output_outside, why_repository_outside
from jobs.connectors.output.registry import OutputWanted
from jobs.connectors.repository import registry
from jobs.connectors.schema import BadSpecification
from jobs.connectors.stored_secrets import unmask
from jobs.lifecycle.job import Phase
from jobs.models import Job, LostLines, OutputConnection, RepositoryConnection, Session
from jobs.partitions.merged import PartitionAway, change_elsewhere
from jobs.state import channels, versions
from jobs.verbs.connection_checks import (
    Kind,
    as_stored,
    check_fields,
    check_file,
    check_name,
    lock_files,
    schema_of,
    why_file_taken,
)
from nodes.database.clock import read_clock
from nodes.errors import InUse, Invalid, Unknown
from nodes.membership.changes import record_change, record_request

Connection = RepositoryConnection | OutputConnection
_C = TypeVar("_C", RepositoryConnection, OutputConnection)


def create(
    kind: Kind,
    *,
    name: str,
    connector: str,
    configuration: Mapping[str, Any],
    authority_group_id: int | None = None,
    made_by: str = "",
) -> Connection:
    """
    Store a new connection. A repository may name its authority group.

    Raises:
        Invalid: there is no such connector, it refuses the configuration, the name is taken, or another output writes
            the file.
    """
    configuration = unmask(configuration, stored={})
    check_fields(kind, connector=connector, configuration=configuration)
    check_name(kind, name)
    stored = as_stored(kind, connector=connector, configuration=configuration)
    with transaction.atomic():
        if kind is OutputConnection:
            check_file(OutputConnection(name=name, connector=connector, configuration=stored))
        made = kind(name=name, connector=connector, configuration=stored, is_confined=True)
        if isinstance(made, RepositoryConnection):
            made.authority_group_id = _checked_group(authority_group_id)
            _check_tokens(made)
        made.save()
        _journal(made, before={}, after=_facts(made), made_by=made_by)
        versions.keep(made, made_by=made_by, now=read_clock())
    return made


def change(
    kind: Kind,
    connection_id: int,
    *,
    name: str | None = None,
    configuration: Mapping[str, Any] | None = None,
    authority_group_id: int | EllipsisType | None = ...,
    made_by: str = "",
) -> Connection:
    """
    Change a connection, and return it. None keeps a field, and a mask keeps a secret. The connector never changes.

    An `authority_group_id` of None removes the group of a repository, and `...` keeps it.

    Raises:
        Invalid: the connector refuses the configuration, the name is taken, or another output writes the file.
        Unknown: the connection does not exist.
    """
    with transaction.atomic():
        connection = _lock(kind, connection_id)
        now, before = read_clock(), _facts(connection)
        versions.keep_first(connection, now=now)
        if name is not None and name != connection.name:
            check_name(kind, name)
            connection.name = name
        if configuration is not None:
            schema = schema_of(kind, connection.connector)
            configuration = unmask(configuration, stored=connection.configuration, schema=schema)
        if configuration is not None and configuration != connection.configuration:
            check_fields(kind, connector=connection.connector, configuration=configuration)
            connection.configuration = as_stored(kind, connector=connection.connector, configuration=configuration)
            connection.is_confined = True
            if isinstance(connection, RepositoryConnection):
                Session.objects.filter(repository=connection).delete()
            else:
                check_file(connection)
                LostLines.objects.filter(output=connection).delete()
            invalidate_versions(connection)
        if isinstance(connection, RepositoryConnection) and authority_group_id is not ...:
            is_another = authority_group_id != connection.authority_group_id
            connection.authority_group_id = _checked_group(authority_group_id)
            if is_another:
                # Documents still have the tokens of the earlier group, so they must be read again.
                invalidate_versions(connection)
        if isinstance(connection, RepositoryConnection):
            _check_tokens(connection)
        connection.save()
        after = _facts(connection)
        _journal(connection, before=before, after=after, made_by=made_by)
        if after != before:
            versions.keep(connection, made_by=made_by, now=now)
    return connection


def store_output_of_local_user(wanted: OutputWanted) -> OutputConnection:
    """
    Return the output that a local user names. A new output is stored.

    Raises:
        BadSpecification: another output writes its file.
    """
    facts = {"connector": wanted.connector, "configuration": wanted.configuration}
    with transaction.atomic():
        # Another command may be storing the same output at this moment.
        lock_files()
        stored = OutputConnection.objects.filter(name=wanted.name).first()
        if stored is None:
            stored = OutputConnection(name=wanted.name, **facts)
            if why := why_file_taken(stored):
                raise BadSpecification("output", why)
            stored.save()
    return stored


def remove_confinement(connection: _C, *, configuration: Mapping[str, Any], made_by: str) -> _C:
    """
    Remove a connection's confinement to the roots, because a local user has named exactly its paths. Return the
    connection.

    A connection that was changed since then stays confined, because the local user named other paths.
    """
    if connection.is_confined and connection.configuration == configuration:
        with transaction.atomic():
            connection.is_confined = False
            connection.save(update_fields=["is_confined"])
            before, after = {"is_confined": True}, {"is_confined": False}
            record_change(_named(connection), before=before, after=after, made_by=made_by)
    return connection


def why_outside(repository: RepositoryConnection, outputs: Iterable[OutputConnection]) -> str:
    """
    Return the reason why the roots of this process forbid one of these connections, as a sentence; "" if they forbid
    none.
    """
    found = [why_repository_outside(repository.connector, repository.configuration)] if repository.is_confined else []
    found += [why_output_outside(output.connector, output.configuration) for output in outputs if output.is_confined]
    return next(filter(None, found), "")


def status(connection: RepositoryConnection) -> str:
    """Return the reason why this process cannot use the source, as a sentence; "" if it can."""
    try:
        return registry.find(connection.connector).status(connection.configuration)
    except registry.UnknownConnector as unknown:
        return str(unknown)
    except ValueError as error:
        return f"Its configuration cannot be used: {error}."


def delete(kind: Kind, connection_id: int, *, made_by: str = "") -> None:
    """
    Delete a connection that no job uses.

    Raises:
        InUse: jobs use it.
        Unknown: the connection does not exist.
    """
    with transaction.atomic():
        # A full lock (FOR UPDATE): a transaction that gives this connection to a job must wait, and then find no
        # connection.
        connection = kind.objects.select_for_update().filter(pk=connection_id).first()
        if connection is None:
            raise Unknown("connection", connection_id)
        users = list(connection.jobs.order_by("name").values_list("name", flat=True))
        if users:
            raise InUse(f"{connection.name} cannot be deleted while it is used by: {', '.join(users)}.")
        _journal(connection, before=_facts(connection), after={}, made_by=made_by)
        connection.delete()


def index_again(output_id: int, *, made_by: str, now: dt.datetime) -> OutputConnection:
    """
    Let the next run of each job write everything to this output again, in all partitions; return the output.

    This changes one row of each partition, whatever the size of the output.

    Raises:
        Unknown: the output does not exist.
        PartitionAway: a partition does not answer. The other partitions have executed the request.
    """
    return _everywhere(
        index_again, _mark(output_id, "asked to re-index all of {}", made_by=made_by, trusted_from=now), made_by
    )


def clear(output_id: int, *, made_by: str, now: dt.datetime) -> OutputConnection:
    """
    Remove all present documents from this output, in all partitions; return the output.

    Workers remove them after this call, a chunk at a time. `restoring.restore_cleared` restores the documents.

    Raises:
        Unknown: the output does not exist.
        PartitionAway: a partition does not answer. The other partitions have executed the request.
    """
    facts = {"trusted_from": now, "clear_before": now, "clearing_refused": ""}
    marked = _mark(output_id, "asked to take everything out of {}", made_by=made_by, **facts)
    return _everywhere(clear, marked, made_by)


def clear_history(repository_id: int, *, made_by: str, now: dt.datetime) -> RepositoryConnection:
    """
    Delete the present history of this source, in all partitions; return the source. The main manager of each partition
    deletes it after this call, in chunks.

    Raises:
        Unknown: the source does not exist.
        PartitionAway: a partition does not answer. The other partitions have executed the request.
    """
    with transaction.atomic():
        marked = _store_mark(
            RepositoryConnection,
            repository_id,
            "asked to clear the history of {}",
            made_by=made_by,
            clear_history_before=now,
        )
    return _everywhere(clear_history, marked, made_by)


def _everywhere(verb: Callable[..., object], done: _C, made_by: str) -> _C:
    """
    Perform a verb in the other partitions, on the connection of the same name. Return the connection of this partition.

    Raises:
        PartitionAway: a partition does not answer.
    """

    def elsewhere(_name: str) -> None:
        there = type(done)._default_manager.filter(name=done.name).values_list("pk", flat=True).first()  # noqa: SLF001 (Django's own word)
        if there is not None:
            verb(there, made_by=made_by, now=read_clock())

    silent = [one.name for one in change_elsewhere(elsewhere).silent]
    if silent:
        raise PartitionAway(
            f"The other partitions do it for {done.name}. Partition {', '.join(silent)} does not answer. Repeat it later."
        )
    return done


def _mark(output_id: int, asked: str, *, made_by: str, **facts: object) -> OutputConnection:
    with transaction.atomic():
        jobs = Job.objects.filter(outputs=output_id).select_for_update(no_key=True).order_by("pk")
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(from_the_beginning=True)
        marked = _store_mark(OutputConnection, output_id, asked, made_by=made_by, **facts)
        LostLines.objects.filter(output=output_id).delete()
    return marked


def _store_mark(kind: type[_C], connection_id: int, asked: str, *, made_by: str, **facts: object) -> _C:
    """Store an operator's request on a connection, with a line in the journal."""
    connection = _lock(kind, connection_id)
    assert isinstance(connection, kind)
    before = {name: getattr(connection, name) for name in facts}
    for name, value in facts.items():
        setattr(connection, name, value)
    connection.save(update_fields=list(facts))
    message = f"{made_by} {asked.format(_named(connection))}"
    record_request(message, made_by=made_by, before=before, after=facts)
    return connection


def _lock(kind: Kind, connection_id: int) -> Connection:
    connection = kind.objects.select_for_update(no_key=True).filter(pk=connection_id).first()
    if connection is None:
        raise Unknown("connection", connection_id)
    return connection


def invalidate_versions(changed: Connection) -> None:
    """
    Give each job that uses a changed connection a new version of its specification, so that stored versions of
    documents no longer count.

    A running job continues: its workers are notified, and documents that they read from now on get the new version.
    """
    users = changed.jobs.values_list("pk", flat=True)
    jobs = list(Job.objects.select_for_update(no_key=True).filter(pk__in=list(users)).order_by("pk"))
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
        specification_version=F("specification_version") + 1, from_the_beginning=True
    )
    with database.cursor() as cursor:
        for job in jobs:
            if job.phase != Phase.INACTIVE:
                cursor.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, str(job.pk)))


def _facts(connection: Connection) -> dict[str, Any]:
    of_repository = ("authority_group_id",) if isinstance(connection, RepositoryConnection) else ()
    return {name: getattr(connection, name) for name in ("name", "connector", "configuration", *of_repository)}


def _checked_group(group_id: int | None) -> int | None:
    # Authority groups belong to an application of a higher layer, which this module must not import.
    groups: Any = RepositoryConnection._meta.get_field("authority_group").related_model  # noqa: SLF001 (Django's)
    if group_id is not None and not groups.objects.filter(pk=group_id).exists():
        raise Invalid({"authority_group": [f"Authority group {group_id} does not exist."]})
    return group_id


def _check_tokens(repository: RepositoryConnection) -> None:
    """
    Check that users can have the tokens of a source.

    Raises:
        Invalid: the connector of the source reports tokens, and the source has no authority group.
    """
    has_tokens = getattr(registry.installed().get(repository.connector), "has_tokens", None)
    if repository.authority_group_id is None and has_tokens is not None and has_tokens(repository.configuration):
        raise Invalid(
            {
                "authority_group": [
                    "Documents of this source have tokens. Choose the authority group to which they belong."
                ]
            }
        )


def _journal(connection: Connection, *, before: dict[str, Any], after: dict[str, Any], made_by: str) -> None:
    record_change(_named(connection), before=before, after=after, made_by=made_by)


def _named(connection: Connection) -> str:
    kind = "repository" if isinstance(connection, RepositoryConnection) else "output"
    return f"{kind} {connection.name}"
