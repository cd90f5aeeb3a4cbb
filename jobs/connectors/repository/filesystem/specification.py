"""The stored configuration of a file system connection, and the specification of its jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.filesystem.paths import canonical, is_within, normal_path, path_of, shown
from jobs.connectors.repository.filesystem.rules import Rules
from jobs.connectors.repository.kind import Asked, BadIdentifier
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema

_MOST_BYTES: Final = 20 * 1024 * 1024

ROOTS: Final = Field(
    name="roots",
    kind=FieldKind.LINES,
    label=_("Readable directories"),
    help=_("Absolute paths, one per line. Jobs cannot open anything outside of them."),
    is_required=True,
)
INCLUDE: Final = Field(
    name="include",
    kind=FieldKind.LINES,
    label=_("Include files (patterns)"),
    help=_(
        "Globs (*.txt, drafts/*, /srv/**/old) or regex:EXPRESSION (RE2), one per line. Seeds are always read. If empty, all files are read."
    ),
)
EXCLUDE: Final = Field(
    name="exclude",
    kind=FieldKind.LINES,
    label=_("Exclude files or directories (patterns)"),
    help=_("Globs or regex:EXPRESSION (RE2), one per line. Seeds are always read."),
)
MAX_BYTES: Final = Field(
    name="max_bytes",
    kind=FieldKind.WHOLE,
    label=_("Maximum file size (bytes)"),
    help=_("Larger files are not read. If empty, the limit is 20971520 (20 MiB)."),
    least=1,
    most=1024 * 1024 * 1024,
)
HIDDEN: Final = Field(
    name="hidden",
    kind=FieldKind.TRUTH,
    label=_("Hidden files"),
    help=_("Also read files and directories whose names begin with a dot."),
)
FOLLOW_LINKS: Final = Field(
    name="follow_links",
    kind=FieldKind.TRUTH,
    label=_("Follow symbolic links"),
    help=_("Follow symbolic links whose targets are below the readable directories."),
)
SPECIFICATION: Final = Schema((INCLUDE, EXCLUDE, MAX_BYTES, HIDDEN, FOLLOW_LINKS))
CONFIGURATION: Final = Schema((ROOTS, *SPECIFICATION.fields))


@dataclass(frozen=True, slots=True)
class FileSpecification:
    """`roots` and `seeds` are normal paths. Every seed is a root or lies below one."""

    roots: tuple[bytes, ...]
    seeds: tuple[bytes, ...]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_bytes: int = _MOST_BYTES
    hidden: bool = False
    follow_links: bool = False

    @classmethod
    def read(cls, asked: Asked) -> Self:
        """
        Return the specification of a job's request.

        Raises:
            BadSpecification: a key is unknown, or a value is invalid.
        """
        said = {**CONFIGURATION.read(asked.configuration), **SPECIFICATION.read(asked.specification)}
        if said.get("max_bytes", 0) is None:
            del said["max_bytes"]
        roots = read_roots(said.pop("roots"))
        return cls(roots=roots, seeds=_read_seeds(asked.seeds, roots), **said)

    def rules(self) -> Rules:
        """
        Return the rules of the job.

        Raises:
            BadPattern
        """
        return Rules(tops=self.seeds, include=self.include, exclude=self.exclude, hidden=self.hidden)


def read_roots(typed: Sequence[str]) -> tuple[bytes, ...]:
    """
    Return the normal paths of the roots of a connection, each once.

    Raises:
        BadSpecification: there is none, or one is not a path.
    """
    if not typed:
        raise BadSpecification("roots", "name a directory that may be read")
    try:
        return tuple(dict.fromkeys(normal_path(root.encode("utf-8", "surrogateescape"), typed=root) for root in typed))
    except (BadIdentifier, UnicodeEncodeError) as error:
        raise BadSpecification("roots", str(error)) from None


def _read_seeds(typed: Sequence[str], roots: Sequence[bytes]) -> tuple[bytes, ...]:
    seeds = []
    for address in typed:
        try:
            path = path_of(canonical(address))
        except BadIdentifier as error:
            raise BadSpecification("seeds", str(error)) from None
        if not any(is_within(path, root) for root in roots):
            allowed = ", ".join(map(shown, roots))
            raise BadSpecification(
                "seeds", f"{address!r} is outside the folders that this connection may read: {allowed}"
            )
        seeds.append(path)
    return tuple(dict.fromkeys(seeds))
