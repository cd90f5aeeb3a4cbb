"""`manage.py archive VERB`: show, extract and copy archives of raw exchanges."""

import argparse
import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError

from jobs.archive import files
from jobs.archive.copies import Copy
from jobs.archive.records import Archived, BadArchive, Format
from jobs.models import ArchiveRecord
from jobs.partitions import this_partition
from jobs.partitions.merged import PartitionAway, read_in
from jobs.queries.archive import file_of_path, read_copy, read_record
from jobs.queries.documents.conditions import hashes_of
from nodes.errors import Refused, Unknown
from nodes.management.database import check_database
from nodes.stores.port import StoreError

_T = TypeVar("_T")

# Time limit of reading a file that another partition has written (seconds).
_READ_WITHIN = 3600.0


class Command(BaseCommand):
    # Standard output is for the answer only.
    requires_system_checks: list[str] = []
    help = "Show, extract and copy archives of raw requests and responses (docs/archive.md)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        doing = parser.add_subparsers(dest="verb", required=True)
        show = doing.add_parser("show", help="list the answers in a file, or print one of them")
        show.add_argument("file", type=Path, help="WARC or BARC file, or the path of an archive file in a store")
        show.add_argument("--offset", type=int, metavar="N", help="print the answer at this offset")
        extract = doing.add_parser("extract", help="write the newest archived body of a document to standard output")
        extract.add_argument("address", help="address of the document")
        copy = doing.add_parser("copy", help="copy a file to a new file of a format")
        copy.add_argument("source", type=Path, help="WARC or BARC file, or the path of an archive file in a store")
        copy.add_argument("target", type=Path, help="file that does not exist yet")
        copy.add_argument("--to", choices=list(Format), required=True, help="format of the new file")
        for one in (show, extract, copy):
            one.add_argument(
                "--partition",
                metavar="NAME",
                default="",
                help="partition that has it. Without a name, this one is asked first, and then all others",
            )

    def handle(self, *_args: Any, verb: str, **given: Any) -> None:
        try:
            for line in getattr(self, f"_{verb}")(given):
                self.stdout.write(line)
        except (Refused, PartitionAway) as refused:
            raise CommandError(str(refused), returncode=1) from refused
        except Unknown as unknown:
            raise CommandError(str(unknown), returncode=2) from unknown
        except BadArchive as bad:
            raise CommandError(f"{bad}.", returncode=2) from bad
        except StoreError as error:
            raise CommandError(f"{error}.", returncode=1) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"Cannot use {error.filename}: {error.strerror}.", returncode=2) from error

    @classmethod
    def _show(cls, given: dict[str, Any]) -> Iterator[str]:
        if given["offset"] is None:
            for one in cls._read(given, "file", files.read_all):
                yield _line(one)
            return
        if given["offset"] < 0:
            raise CommandError(f"--offset is {given['offset']}: write a whole number from 0.", returncode=2)
        one = cls._read(given, "file", lambda copy: files.read_at(copy, given["offset"]))
        yield _line(one)
        yield one.response_head.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n")
        yield ""
        yield one.body.decode("utf-8", "replace")

    @staticmethod
    def _extract(given: dict[str, Any]) -> Iterator[str]:
        check_database()
        hashes = hashes_of(given["address"])

        def find() -> bytes | None:
            found = ArchiveRecord.objects.filter(hash__in=hashes, kind="response").order_by("-id").first()
            return None if found is None else read_record(found.pk).content.body

        body = _find(given["partition"], find)
        if body is None:
            raise CommandError(f"No body of {given['address']} is archived.", returncode=1)
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        yield from ()

    @classmethod
    def _copy(cls, given: dict[str, Any]) -> Iterator[str]:
        target, format_ = given["target"], Format(given["to"])
        count = cls._read(
            given,
            "source",
            lambda copy: files.copy(copy, target, format_, software="crawlctl", date=dt.datetime.now(dt.UTC)),
        )
        yield f"Copied {count:,} answers to {target}."

    @staticmethod
    def _read(given: dict[str, Any], name: str, read: Callable[[Copy], _T]) -> _T:
        """
        Read a file of this machine, or the first readable copy of an archive file with this path.

        Raises:
            CommandError: no file has this path.
            Refused: no copy can be read.
            Unknown, PartitionAway: as `_find`.
        """
        path = given[name]
        if path.is_absolute() or (path.exists() and not given["partition"]):
            return read(path)
        check_database()

        def find() -> list[_T] | None:
            file = file_of_path(str(path))
            return None if file is None else [read_copy(file, read)]

        found = _find(given["partition"], find)
        if found is None:
            raise CommandError(f"{path} is neither a file here nor the path of an archive file.", returncode=2)
        return found[0]


def _find(partition: str, find: Callable[[], _T | None]) -> _T | None:
    """
    Return the result of `find` in this partition, or else in the first other partition that has one. If a partition is
    named, search only there.

    Raises:
        Unknown: no other partition has this name.
        PartitionAway: a partition that may have the result does not answer.
    """
    if partition and partition != this_partition.name():
        return read_in(partition, find, within=_READ_WITHIN)
    found = find()
    placement = this_partition.placement()
    if found is not None or partition or placement is None or not placement.is_control:
        return found
    away: PartitionAway | None = None
    for name in placement.others:
        try:
            found = read_in(name, find, within=_READ_WITHIN)
        except PartitionAway as silent:
            away = silent
        if found is not None:
            return found
    if away is not None:
        raise away
    return None


def _line(one: Archived) -> str:
    return f"{one.offset:>10} {one.date:%Y-%m-%dT%H:%M:%SZ} {one.kind.value:<12} {one.status:>3} {len(one.body):>9} {one.url}"
