"""The options of `manage.py crawl`. They create a new job, or change a stored one."""

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.db import transaction

from jobs.checks.job_options import JobOptions
from jobs.connectors.output.registry import DEFAULT_OUTPUT, open_output, parse_output
from jobs.connectors.repository import registry
from jobs.connectors.repository.kind import RepositoryKind
from jobs.connectors.repository.web.kind import WEB
from jobs.connectors.repository.web.urls import typed_without_userinfo
from jobs.lifecycle.job import Pause, Phase
from jobs.lifecycle.limits import MOST_BYTES, MOST_STARTS
from jobs.lifecycle.period import Period
from jobs.loops.oneshot import take_over_job
from jobs.management.crawl_sources import CrawlRefused, kind_of, read_fields, repository_of
from jobs.management.standard_output import STANDARD_OUTPUT, connection_of
from jobs.models import Job, OutputConnection, ThrottlePolicy
from jobs.verbs import connections, control, editing
from jobs.verbs.seeds import SeedWanted
from nodes.database.clock import read_clock

# Value of `--archive` with which a job no longer keeps an archive.
NO_ARCHIVE = "none"
_MADE_BY = "crawl"
_MOST_SECONDS = 86_400.0
_RATE = re.compile(rf"(\d{{1,9}})/({'|'.join(Period)})")
_THROTTLING = ("connections_per_host", "delay", "rate", "bytes_per_second")


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """The options as given. A missing option is None."""

    urls: tuple[str, ...]
    scope: str | None
    include: tuple[str, ...] | None
    exclude: tuple[str, ...] | None
    max_documents: int | None
    max_depth: int | None
    connections_per_host: int | None
    delay: float | None
    rate: tuple[int, Period] | None
    bytes_per_second: int | None
    user_agent: str | None
    robots_name: str | None
    allow_private_networks: bool | None
    robots_wait: float | None
    connector: str | None
    fields: tuple[str, ...]
    outputs: tuple[str, ...] | None
    archive: str | None
    job: str | None
    resume: bool

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """
        Read the command's options.

        Raises:
            CrawlRefused: a number or a rate is invalid.
            Invalid: no job can have this name.
        """
        if given["job"] is not None:
            editing.check_name(given["job"])
        _within("--max-documents", given["max_documents"], 1, 2**53)
        _within("--max-depth", given["max_depth"], 0, 2**31 - 1)
        _within("--connections-per-host", given["connections_per_host"], 1, 1000)
        _within("--delay", given["delay"], 0, _MOST_SECONDS)
        _within("--bytes-per-second", given["bytes_per_second"], 1, MOST_BYTES)
        _within("--robots-wait", given["robots_wait"], 0, _MOST_SECONDS)
        return cls(
            urls=tuple(given["urls"]),
            scope=given["scope"],
            include=_tuple(given["include"]),
            exclude=_tuple(given["exclude"]),
            max_documents=given["max_documents"],
            max_depth=given["max_depth"],
            connections_per_host=given["connections_per_host"],
            delay=given["delay"],
            rate=None if given["rate"] is None else _read_rate(given["rate"]),
            bytes_per_second=given["bytes_per_second"],
            user_agent=given["user_agent"],
            robots_name=given["robots_name"],
            allow_private_networks=given["allow_private_networks"],
            robots_wait=given["robots_wait"],
            connector=given["connector"],
            fields=tuple(given["field"] or ()),
            outputs=_tuple(given["output"]),
            archive=given["archive"],
            job=given["job"],
            resume=given["resume"],
        )

    @property
    def specification(self) -> dict[str, Any]:
        """Return the part of the specification that was given, in its stored form."""
        given = {
            "scope": self.scope,
            "include": self.include,
            "exclude": self.exclude,
            "max_depth": self.max_depth,
            "user_agent": self.user_agent,
            "robots_name": self.robots_name,
            "allow_private_networks": self.allow_private_networks,
            "robots_wait": self.robots_wait,
        }
        return {name: list(v) if isinstance(v, tuple) else v for name, v in given.items() if v is not None}

    @property
    def changes_something(self) -> bool:
        """True if anything but the job's name was given."""
        return bool(
            self.urls or self.specification or self.fields or self.outputs or self.job_options or self.throttling
        )

    @property
    def job_options(self) -> JobOptions:
        """Return the given columns of the job."""
        given = JobOptions()
        if self.max_documents is not None:
            given["max_documents"] = self.max_documents
        if self.archive is not None:
            given["archive"] = "" if self.archive == NO_ARCHIVE else self.archive
        return given

    @property
    def throttling(self) -> list[str]:
        """Return the names of the given options that limit requests to hosts."""
        return [name for name in _THROTTLING if getattr(self, name) is not None]


def prepare_job(options: CrawlOptions, *, scope: str, write_line: Callable[[str], None]) -> Job:
    """
    Make the job ready to run in a one-shot's `scope`, and start it (or continue it).

    Raises:
        CrawlRefused, Invalid, BadSpecification, OutputError: the options do not fit the source or the output.
        JobBusy: a live node works on the job.
    """
    now = read_clock()
    if options.resume:
        return _resume(_find_interrupted(options), scope=scope, write_line=write_line, now=now)
    stored = Job.objects.filter(name=options.job).first() if options.job else None
    if stored is None:
        job = _create(options, scope=scope, write_line=write_line, now=now)
    else:
        take_over_job(stored, scope=scope, write_line=write_line)
        if stored.phase != Phase.INACTIVE:
            raise CrawlRefused(
                f"Job {stored.name} was interrupted. Resume it with --resume, or abort that run on its page."
            )
        with transaction.atomic():
            job = _change(stored, options, write_line=write_line, now=now)
            _refuse_outside(job)
    control.start(job.pk, made_by=_MADE_BY, now=now)
    return job


def _find_interrupted(options: CrawlOptions) -> Job:
    jobs = Job.objects.exclude(phase=Phase.INACTIVE)
    if options.job:
        job = Job.objects.filter(name=options.job).first()
        if job is None:
            raise CrawlRefused(f"No job has the name {options.job!r}, so there is nothing to resume.")
    else:
        wanted = SeedWanted(options.urls).stored_urls
        interrupted = jobs.order_by("-started_at")
        job = next((j for j in interrupted if not wanted or wanted in [s.urls for s in j.seeds.all()]), None)
        if job is None:
            raise CrawlRefused("No interrupted crawl exists. Start a new one without --resume.")
    if job.phase == Phase.INACTIVE:
        raise CrawlRefused(f"Job {job.name} is not interrupted. Run it again without --resume.")
    return job


def _refuse_outside(job: Job) -> None:
    if why := connections.why_outside(job.repository, job.outputs.all()):
        raise CrawlRefused(f"{why} Or name the path on the command line.")


def _resume(job: Job, *, scope: str, write_line: Callable[[str], None], now: dt.datetime) -> Job:
    _refuse_outside(job)
    take_over_job(job, scope=scope, write_line=write_line)
    job.refresh_from_db()
    if job.pause != Pause.NO:
        control.resume(job.pk, made_by=_MADE_BY, now=now)
    return job


def _create(options: CrawlOptions, *, scope: str, write_line: Callable[[str], None], now: dt.datetime) -> Job:
    if not options.urls:
        if options.job:
            raise CrawlRefused(f"No job has the name {options.job!r}. To create it, add an address.")
        raise CrawlRefused("Write the address of a seed, or --job NAME for a stored job.")
    name = options.job or _name_after(options.urls[0], now=now)
    kind = kind_of(options.urls, named=options.connector)
    configuration, specification = read_fields(kind, options.fields)
    _refuse_what_does_not_apply(options, to=kind)
    repository = repository_of(kind, options.urls, configuration=configuration)
    saved = editing.create_job(
        name=name,
        repository=repository,
        outputs=_outputs(options.outputs or (DEFAULT_OUTPUT,), job_name=name),
        seeds=[SeedWanted(options.urls)],
        specification={**options.specification, **specification},
        node_scope=scope,
        made_by=_MADE_BY,
        now=now,
        **options.job_options,
    )
    if repository.connector == WEB.name:
        _set_policy(saved.job, options)
    for warning in saved.warnings:
        write_line(f"Warning: {warning}")
    return saved.job


def _refuse_what_does_not_apply(options: CrawlOptions, *, to: RepositoryKind) -> None:
    """Refuse options that this kind of source does not have."""
    known = {field.name for field in to.specification.fields}
    given = [name for name in options.specification if name not in known]
    if to is not WEB:
        given += options.throttling
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise CrawlRefused(f"{names}: only for web sources, but the source is: {to.label}.")


def _change(job: Job, options: CrawlOptions, *, write_line: Callable[[str], None], now: dt.datetime) -> Job:
    if not options.changes_something:
        return job
    kind = registry.find(job.repository.connector)
    configuration, specification = read_fields(kind, options.fields)
    if configuration or options.connector not in {None, kind.name}:
        raise CrawlRefused(
            f"The connection of job {job.name} cannot be changed here. Change it on its page, or create another job."
        )
    _refuse_what_does_not_apply(options, to=kind)
    seeds = list(job.seeds.filter(removed_at=None))
    saved = editing.change_job(
        job.pk,
        outputs=_outputs(options.outputs, job_name=job.name) if options.outputs else None,
        seeds=[SeedWanted(options.urls, seeds[0].policy, seeds[0].tag) if seeds else SeedWanted(options.urls)]
        if options.urls
        else None,
        specification={**job.specification, **options.specification, **specification},
        **options.job_options,
        made_by=_MADE_BY,
        now=now,
    )
    if job.repository.connector == WEB.name:
        _set_policy(saved.job, options)
    write_line(f"The options replace the stored configuration of job {job.name}.")
    for warning in saved.warnings:
        write_line(f"Warning: {warning}")
    return saved.job


def _outputs(given: Sequence[str], *, job_name: str) -> list[OutputConnection]:
    """
    Return the output connections that the options name. New ones are stored. All outputs have been checked for writing.
    """
    stored = []
    for text in given:
        if text == STANDARD_OUTPUT:
            stored.append(connection_of(job_name))
            continue
        wanted = parse_output(text)
        facts = {"connector": wanted.connector, "configuration": wanted.configuration}
        connection = OutputConnection.objects.filter(name=wanted.name).first()
        if connection is not None:
            connections.remove_confinement(connection, configuration=wanted.configuration, made_by=_MADE_BY)
        open_output(connection or OutputConnection(name=wanted.name, **facts)).check()
        stored.append(connections.store_output_of_local_user(wanted))
    return stored


def _set_policy(job: Job, options: CrawlOptions) -> None:
    """Give the job its own policy, from --connections-per-host, --delay, --rate and --bytes-per-second."""
    policy = ThrottlePolicy.objects.filter(private_to=job).first()
    if policy is None:
        if job.seeds.filter(policy__isnull=False).exists():
            return
        policy = ThrottlePolicy(name=f"of job {job.pk}", private_to=job, skips_loopback=True)
    if options.connections_per_host is not None:
        policy.open_requests = options.connections_per_host
    if options.delay is not None:
        policy.min_gap, policy.skips_loopback = options.delay, False
    if options.rate is not None:
        (policy.starts, policy.period), policy.skips_loopback = options.rate, False
        # If only a rate is given, it applies even if the default gap is longer.
        policy.min_gap = options.delay or 0.0
    if options.bytes_per_second is not None:
        policy.bytes_per_second = options.bytes_per_second
    policy.save()
    job.seeds.filter(policy=None).update(policy=policy)


def _name_after(url: str, *, now: dt.datetime) -> str:
    """Return a name for a job if none is given. All viewers of jobs see the name, so it contains no password."""
    shown = "".join(character if character.isprintable() else "?" for character in typed_without_userinfo(url.strip()))
    return f"{shown[:120]} {now:%Y-%m-%d %H:%M:%S.%f}"


def _read_rate(text: str) -> tuple[int, Period]:
    """Return the starts and the period of a text such as `30/minute`."""
    said = _RATE.fullmatch(text)
    if said is None:
        periods = ", ".join(Period)
        raise CrawlRefused(f"--rate is {text!r}: write starts per period, such as 30/minute. Periods: {periods}.")
    starts = int(said[1])
    _within("--rate", starts, 1, MOST_STARTS)
    return starts, Period(said[2])


def _within(name: str, value: float | None, least: float, most: float) -> None:
    # Written so that NaN is refused too.
    if value is not None and not least <= value <= most:
        raise CrawlRefused(f"{name} is {_plain(value)}: write a number from {_plain(least)} to {_plain(most)}.")


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
