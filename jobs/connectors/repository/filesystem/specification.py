"""The stored configuration of a file system connection, and the specification of its jobs."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.access import Level
from jobs.connectors.repository.access_rules import why_no_tokens
from jobs.connectors.repository.filesystem.paths import canonical, is_within, normal_path, path_of, shown
from jobs.connectors.repository.filesystem.permissions import Permissions
from jobs.connectors.repository.filesystem.rules import Rules
from jobs.connectors.repository.kind import BadIdentifier, SourceSettings
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema

_MOST_BYTES: Final = 20 * 1024 * 1024


class AccessSource(enum.StrEnum):
    """The permissions that a connection reads as access: none, those of files, or those of files and their folders."""

    NONE = "none"
    FILES = "files"
    FOLDERS = "folders"


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
ACCESS: Final = Field(
    name="access",
    kind=FieldKind.CHOICE,
    label=_("Access"),
    help=_("Users who may see the documents of this connection. Rules of a job override it."),
    choices=(
        (AccessSource.NONE, _("all users")),
        (AccessSource.FILES, _("users who may read the file")),
        (AccessSource.FOLDERS, _("users who may read the file and open its folders")),
    ),
)
EVERYONE: Final = Field(
    name="everyone",
    kind=FieldKind.TEXT,
    label=_("Token of all users"),
    help=_("Token of files that all users may read, such as S-1-1-0. If empty, these files are open."),
)
SHARE_ALLOW: Final = Field(
    name="share_allow",
    kind=FieldKind.LINES,
    label=_("Tokens of the share: allow"),
    help=_(
        "Tokens of users who may use the share that holds these directories, one per line. If empty, all "
        "users may use it."
    ),
)
SHARE_DENY: Final = Field(
    name="share_deny", kind=FieldKind.LINES, label=_("Tokens of the share: deny"), help=_("One token per line.")
)
SPECIFICATION: Final = Schema((INCLUDE, EXCLUDE, MAX_BYTES, HIDDEN, FOLLOW_LINKS))
# The access of files is an option of the connection. A job overrides it by its access rules.
CONFIGURATION: Final = Schema((ROOTS, *SPECIFICATION.fields, ACCESS, EVERYONE, SHARE_ALLOW, SHARE_DENY))


@dataclass(frozen=True, slots=True)
class FileSpecification:
    """`roots` and `seeds` are normal paths. Every seed is a root or lies below a root."""

    roots: tuple[bytes, ...]
    seeds: tuple[bytes, ...]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_bytes: int = _MOST_BYTES
    hidden: bool = False
    follow_links: bool = False
    access: AccessSource = AccessSource.NONE
    everyone: str = ""
    share_allow: tuple[str, ...] = ()
    share_deny: tuple[str, ...] = ()

    @property
    def permissions(self) -> Permissions | None:
        """Return the object that reads permissions; None if every file is open."""
        share = Level(self.share_allow, self.share_deny)
        if self.access == AccessSource.NONE:
            return None
        return Permissions(self.access == AccessSource.FOLDERS, self.everyone, share)

    @classmethod
    def read(cls, source: SourceSettings) -> Self:
        """
        Return the specification of a job's settings.

        Raises:
            BadSpecification: a key is unknown, or a value is invalid.
        """
        said = {**CONFIGURATION.read(source.configuration), **SPECIFICATION.read(source.specification)}
        if said.get("max_bytes", 0) is None:
            del said["max_bytes"]
        for name in ("share_allow", "share_deny"):
            if why := why_no_tokens(list(said.get(name, ()))):
                raise BadSpecification(name, why)
        if said.get("everyone") and (why := why_no_tokens([said["everyone"]])):
            raise BadSpecification("everyone", why)
        if "access" in said:
            said["access"] = AccessSource(said["access"])
        elif set(said) & {"everyone", "share_allow", "share_deny"}:
            raise BadSpecification(
                "access", "choose the permissions that are read; without them, all users see all files"
            )
        roots = read_roots(said.pop("roots"))
        return cls(roots=roots, seeds=_read_seeds(source.seeds, roots), **said)

    def rules(self) -> Rules:
        """
        Return the rules of the job.

        Raises:
            BadPattern: a rule is invalid.
        """
        return Rules(tops=self.seeds, include=self.include, exclude=self.exclude, hidden=self.hidden)


def read_roots(typed: Sequence[str]) -> tuple[bytes, ...]:
    """
    Return the normal paths of the roots of a connection, each once.

    Raises:
        BadSpecification: no root is given, or one is not a path.
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
