"""Messages of `manage.py crawl` about seeds that could not be read, and about seeds that redirect elsewhere."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from jobs.models import SeedRedirect
from jobs.queries.jobs.seed_endings import SeedEnding
from jobs.words.codes import explain_code

# Largest number of seeds that a message names. Further seeds are only counted.
_NAMED: Final = 3


def line_of_failed_seeds(endings: Sequence[SeedEnding], refused: Sequence[SeedRedirect]) -> str:
    """
    Return the line about the seeds of a job of which none could be read. `refused` are redirects that led out of the
    scope.
    """
    targets = {redirect.source: redirect.target for redirect in refused}
    return f"No seed could be read: {_named(endings, targets)}."


def lines_of_unread_seeds(endings: Sequence[SeedEnding], refused: Sequence[SeedRedirect]) -> list[str]:
    """Return a line for the seeds that could not be read, if other seeds could. Redirects have separate lines."""
    targets = {redirect.source for redirect in refused}
    unread = [ending for ending in endings if not ending.is_read and ending.seed not in targets]
    if not unread:
        return []
    return [f"{len(unread):,} of {len(endings):,} seeds could not be read: {_named(unread, {})}."]


def lines_of_redirects(followed: Sequence[SeedRedirect], refused: Sequence[SeedRedirect]) -> list[str]:
    """Return lines about redirects of seeds: the hosts that came into the scope, and the targets outside of it."""
    to_hosts = [redirect for redirect in followed if urlsplit(redirect.source).netloc != redirect.target_host]
    lines = [
        f"{redirect.source} redirects to {redirect.target}. The scope now includes {redirect.target_host}."
        for redirect in to_hosts[:_NAMED]
    ]
    if len(to_hosts) > _NAMED:
        lines.append(f"The scope now includes {len(to_hosts) - _NAMED:,} more hosts that seeds redirect to.")
    lines += [
        f"{redirect.source} redirects to {redirect.target}, which is out of scope. To crawl it: crawlctl crawl {shlex.quote(redirect.target)}"
        for redirect in refused[:_NAMED]
    ]
    if len(refused) > _NAMED:
        lines.append(f"{len(refused) - _NAMED:,} more seeds redirect out of scope.")
    return lines


def _named(endings: Sequence[SeedEnding], targets: Mapping[str, str]) -> str:
    named = "; ".join(_of_ending(ending, targets.get(ending.seed)) for ending in endings[:_NAMED])
    return f"{named}; and {len(endings) - _NAMED:,} more" if len(endings) > _NAMED else named


def _of_ending(ending: SeedEnding, target: str | None) -> str:
    words = f"redirects to {target}: start there" if target else explain_code(ending.code).rstrip(".")
    return f"{ending.seed} {ending.code} ({words})" if words else f"{ending.seed} {ending.code}"
