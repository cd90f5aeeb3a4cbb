"""A cluster with each kind of connection and each option of a job, as definitions of tests."""

import io

from django.core.management import call_command

from jobs.authorities.models import AuthorityGroup
from jobs.connectors.output import registry as outputs
from jobs.connectors.repository import registry as repositories
from jobs.definitions import importing
from jobs.models import Job, OutputConnection, RepositoryConnection, ThrottlePolicy
from nodes.permissions import may_do_everything

LOGIN = {
    "name": "portal",
    "pages": "^http://docs\\.test/private/",
    "hosts": ["docs.test"],
    "page": "/login$",
    "form": "/login",
    "text": "Log in",
    "fields": [{"name": "user", "value": "vera"}, {"name": "password", "secret": "swordfish"}],
    "success": "Welcome",
}
WEB = {
    "scope": "any",
    "include": ["^http://", "no", "1:30", "0x1f", "é — ü\u2028"],
    "exclude": ["\\.zip$"],
    "content_types": ["text/html", "text/*"],
    "max_bytes": 1_000_000,
    "exclude_text": ["draft"],
    "max_depth": 7,
    "user_agent": "tests/1.0",
    "robots_name": "tests",
    "robots_wait": 30.5,
    "drop_parameters": ["sid"],
    "trap_guard": "watch",
    "allow_private_networks": True,
}
FILES = {
    "include": ["*.txt"],
    "exclude": ["drafts/*"],
    "max_bytes": 4096,
    "hidden": True,
    "follow_links": True,
}
FILE_ACCESS = {
    "access": "folders",
    "everyone": "S-1-1-0",
    "share_allow": ["net", "cn=a,dc=b"],
    "share_deny": ["guests"],
}
ARCHIVE = {
    "include": ["^http://"],
    "exclude": ["\\.zip$"],
    "earliest": "2026-01-31",
    "latest": "2026-12-31T12:00:00Z",
    "statuses": ["200"],
    "content_types": ["text/html"],
    "max_bytes": 1_000_000,
    "exclude_text": ["draft"],
    "robots_name": "tests",
}
FEED = {
    name: value for name, value in WEB.items() if name not in {"scope", "max_depth", "drop_parameters", "trap_guard"}
}
OPTIONS = {
    "max_documents": 1000,
    "priority": 3,
    "kind": "continuous",
    "recrawl_after": 3600,
    "recrawl_at_most": 86400.5,
    "expire_after": 604800,
    "reseed_after": 1800,
    "hop_mode": "no_delete",
    "guard_percent": None,
    "guard_host_percent": 40,
    "guard_documents": 3,
    "guard_seeds": False,
    "kept_versions": 5,
    "start_method": "window_begin",
    "access_rules": [
        {"pattern": "^http://docs\\.test/private/", "allow": ["cn=a,dc=b"], "deny": ["interns"]},
        {"pattern": ".", "allow": [], "deny": []},
    ],
    "freshness_goals": [
        {"pattern": "/news/", "percent": 95.0, "within": 900.0},
        {"pattern": ".", "percent": 90.0, "within": 259200.0},
    ],
    "windows": [
        {
            "days_of_week": [1, 7],
            "days_of_month": [1, 31],
            "months": [1, 12],
            "years": [2027],
            "hours": [22],
            "minutes": [30],
            "time_zone": "Europe/Berlin",
            "duration": 7200,
            "minimal": True,
        },
        {"days_of_week": [3]},
    ],
}
LIMITS = {
    "open_requests": 4,
    "min_gap": 2.5,
    "starts": 30,
    "period": "minute",
    "bytes_per_second": 100_000,
    "total_open_requests": 20,
    "total_starts": 600,
    "total_period": "hour",
    "total_bytes_per_second": 1_000_000,
}
POLICIES = [
    {
        "definition": "policy",
        "name": "gently",
        **LIMITS,
        "per_address": True,
        "skips_loopback": True,
        "time_zone": "Europe/Berlin",
        "rules": [
            {"pattern": "*.slow.test", "days": [6, 7], "from_time": "08:00:00", "to_time": "12:30:00", "min_gap": 9.5},
            {"pattern": "*.denied.test", "denies": True},
            {name: value for name, value in LIMITS.items() if name != "min_gap"},
        ],
    },
    {"definition": "policy", "name": "everywhere", "min_gap": 0.5, "applies_everywhere": True},
    {"definition": "policy", "name": "fast", "unlimited": True},
]


def seed(*urls, **facts):
    return {"urls": list(urls), **facts}


def everything(directory):
    """
    Return definitions that use each connector of the program, each of its fields, and each option of a job.

    The authority group that they name is stored: no definition makes one.
    """
    root = str(directory)
    AuthorityGroup.objects.get_or_create(name="staff")
    return [
        *POLICIES,
        {
            "definition": "repository",
            "name": "a web",
            "connector": "web",
            "configuration": {**WEB, "logins": [LOGIN]},
            "authority_group": "staff",
        },
        {
            "definition": "repository",
            "name": "files",
            "connector": "filesystem",
            "configuration": {"roots": [root], **FILES, **FILE_ACCESS},
            "authority_group": "staff",
        },
        {
            "definition": "repository",
            "name": "archives",
            "connector": "archive",
            "configuration": {"roots": [root], **ARCHIVE},
        },
        {"definition": "repository", "name": "feeds", "connector": "feed", "configuration": FEED},
        {"definition": "output", "name": "index", "connector": "search"},
        {
            "definition": "output",
            "name": "lines",
            "connector": "jsonl",
            "configuration": {"path": f"{root}/pages.jsonl"},
        },
        {"definition": "output", "name": "nothing", "connector": "null"},
        {
            "definition": "job",
            "name": "docs: “all” # 1",
            "repository": "a web",
            "outputs": ["index", "lines"],
            "seeds": [
                seed("http://docs.test/", "http://docs.test/é", policy="gently", tag="near"),
                seed("http://other.test/", policy="fast"),
                seed("http://third.test/"),
            ],
            "specification": WEB,
            **OPTIONS,
            "hop_limits": {"link": 3, "redirect": 0},
            "archive": "warc",
        },
        {
            "definition": "job",
            "name": "tree",
            "repository": "files",
            "outputs": ["nothing"],
            "seeds": [seed(directory.as_uri())],
            "specification": FILES,
            "hop_limits": {"child": 2},
        },
        {
            "definition": "job",
            "name": "news",
            "repository": "feeds",
            "outputs": ["index"],
            "seeds": [seed("http://news.test/feed")],
            "specification": FEED,
        },
    ]


def store(definitions, *, made_by="vera", dry_run=False, may=may_do_everything):
    """Import definitions, and return their changes."""
    given = [importing.Given(str(place), one) for place, one in enumerate(definitions)]
    return importing.import_definitions(given, may=may, made_by=made_by, dry_run=dry_run)


def run(*words):
    """Run the command `definitions`, and return its standard output."""
    out = io.StringIO()
    call_command("definitions", *map(str, words), stdout=out)
    return out.getvalue()


def delete_all():
    for model in (Job, RepositoryConnection, OutputConnection, ThrottlePolicy):
        model.objects.all().delete()


def uncovered_fields():
    """Return the fields of connectors that `everything` leaves at their defaults."""
    used = {
        "web": {*WEB, "logins"},
        "filesystem": {"roots", *FILES, *FILE_ACCESS},
        "archive": {"roots", *ARCHIVE},
        "feed": {*FEED},
        "jsonl": {"path"},
    }
    kinds = {**repositories.installed(), **outputs.installed()}
    named = {name: {field.name for field in kind.configuration.fields} for name, kind in kinds.items()}
    return {name: fields - used.get(name, set()) for name, fields in named.items() if fields - used.get(name, set())}


# A job that uses the objects of `make_world`.
JOB_OF_WORLD = {
    "definition": "job",
    "name": "docs",
    "repository": "the web",
    "outputs": ["index"],
    "seeds": [seed("http://docs.test/", policy="gently")],
}
