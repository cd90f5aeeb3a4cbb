"""Reads XML members of files piece by piece, without a tree. Document types and entities are refused."""

from collections.abc import Callable
from typing import Final
from xml.parsers import expat

from jobs.extraction.budget import Budget
from jobs.extraction.result import ExtractionFailed, Reason

# Largest depth of nested elements. Office nests tables and text boxes, but never to a depth of a hundred.
_DEEPEST: Final = 200
_CHUNK: Final = 64 * 1024
_SEPARATOR: Final = "\x1f"


class XmlHandler:
    """
    Gets the elements of an XML file in their order. Names are local names, without the name space.

    Attributes have local names, too, because no reader needs two attributes that differ only in the name space.
    """

    def start(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None: ...

    def text(self, text: str) -> None: ...


def read_xml(read: Callable[[int], bytes], handler: XmlHandler, budget: Budget) -> None:
    """
    Pass an XML file to the handler.

    Raises:
        ExtractionFailed: the file is damaged, has a document type, or is nested too deeply.
    """
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise ExtractionFailed(Reason.NESTED, f"more than {_DEEPEST} levels of nested elements")
        handler.start(_local(name), {_local(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end(_local(name))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_document_type
    try:
        while chunk := read(_CHUNK):
            budget.unpack(len(chunk))
            parser.Parse(chunk, False)  # noqa: FBT003 (the interface of expat)
        parser.Parse(b"", True)  # noqa: FBT003
    except expat.ExpatError as error:
        raise ExtractionFailed(Reason.DAMAGED, f"XML: {expat.ErrorString(error.code)}") from error
    except LookupError as error:
        raise ExtractionFailed(Reason.DAMAGED, "XML in an unknown charset") from error


def _refuse_document_type(*_facts: object) -> None:
    # A document type could declare entities. No format that is read here needs one.
    raise ExtractionFailed(Reason.DAMAGED, "XML with a document type")


def _local(name: str) -> str:
    return name.rpartition(_SEPARATOR)[2]
