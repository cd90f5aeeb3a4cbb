"""
The partitions of a demo: separate databases, each with an embedded server and a directory below the demo's.

The demo starts itself again as a process of the control partition, so that it reads the settings of that partition.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from psycopg.conninfo import conninfo_to_dict

from crawlctl.demo.plan import SitePlan
from crawlctl.postgres.home import Home, address_of
from jobs.partitions import this_partition

# Largest number of partitions of a demo. Each partition has its own server and cluster.
MOST: Final = 8
_TEXTS: Final = """
SELECT url FROM jobs_searchdocument
 WHERE url LIKE ANY(%(origins)s) AND (vector IS NOT NULL) = %(is_found)s
"""


@dataclass(frozen=True, slots=True)
class DemoPartitions:
    """The other partitions of a demo that runs in its control partition."""

    directory: Path
    names: Sequence[str]
    addresses: Mapping[str, str]

    @classmethod
    def of_this_process(cls) -> "DemoPartitions":
        """
        Return the partitions that the settings name, apart from this partition; an empty result without partitions.
        """
        placement = this_partition.placement()
        names = () if placement is None else placement.others
        return cls(Path(settings.VAR_DIR).absolute().parent, names, this_partition.addresses())

    def environment_of(self, name: str) -> dict[str, str]:
        return {**os.environ, "CRAWLCTL_VAR": str(self.directory / name), "CRAWLCTL_PARTITION": name}

    def remove_links(self) -> None:
        """Remove the directory of links that `start_again` made."""
        for address in self.addresses.values():
            shutil.rmtree(Path(str(conninfo_to_dict(address)["host"])).parent, ignore_errors=True)

    def make_databases_ready(self, *, wait_until: Callable[[Callable[[], bool]], None]) -> None:
        """
        Create the databases of the other partitions at the same time, and bring their tables up to date.

        `wait_until` waits for a condition. If it raises an exception, the work is ended.

        Raises:
            CommandError: the tables of a partition could not be created. The error output has the reason.
        """
        command = (*settings.CRAWLCTL_PROGRAM, "migrate", "--verbosity", "0")
        # In separate sessions: Ctrl-C reaches only this process, which ends them.
        started = {
            name: subprocess.Popen(
                command, env=self.environment_of(name), stdout=subprocess.DEVNULL, start_new_session=True
            )
            for name in self.names
        }
        try:
            wait_until(lambda: all(process.poll() is not None for process in started.values()))
        finally:
            for process in started.values():
                process.terminate()
            codes = {name: process.wait() for name, process in started.items()}
        if failed := [name for name, code in codes.items() if code]:
            names = ", ".join(failed)
            raise CommandError(f"The demo ends: the tables of partition {names} could not be created.", returncode=1)

    def indexed_urls(self, plan: SitePlan) -> set[str]:
        """Return the site's addresses that the search indexes of the other partitions can find."""
        return self._texts(plan, is_found=True)

    def count_texts_behind(self, plan: SitePlan) -> int:
        """Return the number of the site's texts that these indexes cannot find yet."""
        return len(self._texts(plan, is_found=False))

    def _texts(self, plan: SitePlan, *, is_found: bool) -> set[str]:
        facts = {"origins": [f"{origin}/%" for origin in plan.origins], "is_found": is_found}
        urls: set[str] = set()
        for name in self.names:
            with psycopg.connect(self.addresses[name]) as connection:
                urls.update(url for (url,) in connection.execute(_TEXTS, facts))
        return urls


def start_again(number: int, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the same command in the control partition of a demo with this number of partitions."""
    directory = Path(settings.VAR_DIR).absolute() / f"demo-{number}-partitions"
    names = "abcdefgh"[:number]
    # The path of a socket has a hundred characters at most, so the servers are behind links with short paths.
    links = Path(tempfile.mkdtemp(prefix="crawlctl-"))
    links.chmod(0o711)
    for name in names:
        (links / name).symlink_to(Home(directory / name / "postgres").socket_link)
    stated = " ".join(f"{name}={address_of(links / name)}" for name in names)
    program = settings.CRAWLCTL_PROGRAM
    environment = {
        **os.environ,
        "CRAWLCTL_VAR": str(directory / names[0]),
        "CRAWLCTL_PARTITION": names[0],
        "CRAWLCTL_PARTITIONS": stated,
        # All partitions open the same sealed secrets.
        "CRAWLCTL_SECRET_KEY": settings.SECRET_KEY,
        "DATABASE_URL": "",
    }
    os.execve(program[0], [*program, *arguments], environment)  # noqa: S606 (our own program)
