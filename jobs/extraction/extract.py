"""The extraction of one file with its parts, as a child executes it."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from jobs.extraction.budget import Budget, Limits
from jobs.extraction.formats import archives, mail, office, opendocument, outlook, pdf, plain
from jobs.extraction.formats.container import Container
from jobs.extraction.formats.raw import Raw
from jobs.extraction.kinds import Format, format_of
from jobs.extraction.language import language_of
from jobs.extraction.result import Extraction, ExtractionFailed, Metadata, Part, Reason
from jobs.reading.text import media_type

# Separator between the path of a part and the path of a part within it.
WITHIN: Final = "!/"
_COMPRESSED: Final = {Format.GZIP: archives.GZIP, Format.BZIP2: archives.BZIP2, Format.XZ: archives.XZ}
_LONGEST_NAME: Final = 500
_LONGEST_LANGUAGE: Final = 35
_TAG: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    Options of an extraction.

    If `parts` is False, attachments and members are not opened. If `language` is True, the language of a text is
    detected if the file names none.
    """

    parts: bool = True
    language: bool = True


_ALL: Final = Wanted()


def extract(
    body: bytes,
    *,
    content_type: str,
    name: str,
    limits: Limits,
    wanted: Wanted = _ALL,
) -> Extraction:
    """
    Return the text of a file.

    Raises:
        ExtractionFailed: the file has no text, for a reason.
        MemoryError: the file needs more memory than the process may have.
    """
    budget = Budget(limits)
    raw = _read(body, content_type, name, budget)
    text = budget.take_text(raw.text)
    parts = tuple(_parts_of(raw, budget, limits.levels, wanted)) if wanted.parts else ()
    return Extraction(
        content_type=raw.content_type,
        text=text,
        title=raw.title[: limits.metadata],
        metadata=_metadata_of(raw, limits),
        language=_language(raw, text, wanted),
        parts=_with_unique_ids(parts),
        is_cut=budget.is_cut,
        lacks_parts=budget.lacks_parts,
        unread_pages=budget.unread_pages,
    )


@dataclass(frozen=True, slots=True)
class OpenedPart:
    """A part with its bytes. `content_type` is the type that the container of the part names, or ""."""

    id: str
    name: str
    content_type: str
    body: bytes


def split(body: bytes, *, content_type: str, name: str, limits: Limits) -> list[OpenedPart]:
    """
    Return the parts of an e-mail or an archive, without parts within them. Parts that cannot be opened are left out.

    Raises:
        ExtractionFailed: the file is damaged, or larger than the limits.
    """
    budget = Budget(limits)
    found: list[OpenedPart] = []
    seen: dict[str, int] = {}
    for part in _read(body, content_type, name, budget).parts:
        if not budget.takes_part():
            break
        if part.body is not None:
            named = _named(part.name)
            count = seen[named] = seen.get(named, 0) + 1
            identifier = named if count == 1 else f"{named} ({count})"
            found.append(OpenedPart(identifier, named, media_type(part.content_type), part.body))
    return found


def _read(body: bytes, content_type: str, name: str, budget: Budget) -> Raw:
    found = format_of(body, content_type, name)
    match found:
        case Format.PDF:
            return pdf.read_pdf(body, budget)
        case Format.ZIP:
            return _read_container(body, budget)
        case Format.OLE:
            return _read_ole(body, budget)
        case Format.TAR:
            return archives.read_tar(body, budget)
        case Format.GZIP | Format.BZIP2 | Format.XZ:
            return archives.read_compressed(body, _COMPRESSED[found], posixpath.basename(name), budget)
        case Format.MAIL:
            return mail.read_mail(body, budget)
        case Format.HTML:
            return plain.read_html(body, content_type)
        case Format.PLAIN:
            named = media_type(content_type)
            return plain.read_plain(body, content_type, named if named.startswith("text/") else plain.PLAIN)
        case Format.UNKNOWN:
            raise ExtractionFailed(Reason.UNKNOWN_TYPE)


def _read_part(body: bytes, content_type: str, name: str, budget: Budget) -> Raw:
    """
    Return the result of the reader of a part.

    Raises:
        ExtractionFailed: the part has no text, for a reason. A defect of the reader counts as CRASH, so that the other
            parts are still read.
        MemoryError: the part needs more memory than the process may have.
    """
    try:
        return _read(body, content_type, name, budget)
    except (ExtractionFailed, MemoryError):
        raise
    except RecursionError as error:
        raise ExtractionFailed(Reason.NESTED) from error
    except Exception as error:
        raise ExtractionFailed(Reason.CRASH, type(error).__name__) from error


def _read_container(body: bytes, budget: Budget) -> Raw:
    container = Container(body, budget)
    if (named := office.type_of(container)) is not None:
        return office.read_office(container, named, budget)
    if (named := opendocument.type_of(container, budget)) is not None:
        return opendocument.read_opendocument(container, named, budget)
    return archives.read_zip(container)


def _read_ole(body: bytes, budget: Budget) -> Raw:
    ole = outlook.open_ole(body)
    if outlook.is_outlook(ole):
        return outlook.read_outlook(ole, budget)
    # An encrypted Office file is an OLE file that contains the encrypted ZIP.
    reason = Reason.ENCRYPTED if ole.exists("EncryptedPackage") else Reason.UNKNOWN_TYPE
    raise ExtractionFailed(reason)


def _parts_of(raw: Raw, budget: Budget, levels: int, wanted: Wanted, within: str = "") -> Iterator[Part]:
    """Yield all parts, and the parts within them, while the budget lasts."""
    for found in raw.parts:
        if not budget.takes_part():
            return
        identifier = within + _named(found.name)
        digest = blake2b(found.body or b"", digest_size=16).hexdigest()
        if found.body is None:
            yield Part(identifier, _named(found.name), digest, found.content_type, problem=found.problem)
            continue
        try:
            inner = _read_part(found.body, found.content_type, found.name, budget)
        except ExtractionFailed as failure:
            if failure.reason is Reason.BOMB:
                raise
            yield Part(identifier, _named(found.name), digest, found.content_type, problem=failure.reason)
            continue
        text = budget.take_text(inner.text)
        yield Part(
            id=identifier,
            name=_named(found.name),
            digest=digest,
            content_type=inner.content_type,
            text=text,
            title=inner.title[: budget.limits.metadata],
            metadata=_metadata_of(inner, budget.limits),
            language=_language(inner, text, wanted),
        )
        if levels > 1:
            yield from _parts_of_part(inner, budget, levels - 1, wanted, identifier)
        elif _has_any(inner):
            raise ExtractionFailed(Reason.NESTED, f"more than {budget.limits.levels} levels of parts")


def _parts_of_part(raw: Raw, budget: Budget, levels: int, wanted: Wanted, identifier: str) -> Iterator[Part]:
    """
    Yield the parts of a part. If the part is damaged, end early: the result keeps the parts that were already read, and
    other parts of the file.
    """
    try:
        yield from _parts_of(raw, budget, levels, wanted, within=f"{identifier}{WITHIN}")
    except ExtractionFailed as failure:
        if failure.reason in {Reason.BOMB, Reason.NESTED}:
            raise
        budget.lacks_parts = True


def _has_any(raw: Raw) -> bool:
    return next(iter(raw.parts), None) is not None


def _with_unique_ids(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """
    Add a number to the path of a part if another part has the same path, because an archive may have two members of one
    name.
    """
    seen: dict[str, int] = {}
    unique = []
    for part in parts:
        count = seen[part.id] = seen.get(part.id, 0) + 1
        unique.append(part if count == 1 else replace(part, id=f"{part.id} ({count})"))
    return tuple(unique)


def _named(name: str) -> str:
    """Return the name of a part for display: one line, without characters that cannot be shown."""
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return shown[:_LONGEST_NAME] or "part"


def _metadata_of(raw: Raw, limits: Limits) -> Metadata:
    found: dict[str, tuple[str, ...]] = {}
    left = limits.values
    for name, values in raw.metadata.items():
        if left <= 0:
            break
        kept = tuple(value[: limits.metadata] for value in values[:left])
        found[_named(name)] = kept
        left -= len(kept)
    return found


def _language(raw: Raw, text: str, wanted: Wanted) -> str:
    named = raw.language.strip().replace("_", "-")
    if named and len(named) <= _LONGEST_LANGUAGE and _TAG.issuperset(named):
        return named
    return language_of(text) if wanted.language else ""
