"""Parsers of request bodies: text and JSON, without values that PostgreSQL could not store."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, NoReturn, cast

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework import parsers
from rest_framework.exceptions import ParseError

# Subject of each error message about a body.
_BODY: Final = "The body"
# Half a surrogate pair, which is not a character.
_HALF_OF_A_PAIR: Final = re.compile("[\ud800-\udfff]")


class JSONParser(parsers.JSONParser):
    """
    Read a body of JSON in UTF-8.

    NUL and half surrogate pairs are legal in JSON, but no column can store them. 1e400 is legal and reads as infinity.
    This parser refuses all of these, so no field can pass them on.
    """

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return cast("dict[str, Any]", read_json(read_bounded(stream, parser_context)))


class TextParser(parsers.BaseParser):
    """Read a body of text in UTF-8."""

    media_type = "text/plain"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 (the framework expects data of forms)
        body = read_bounded(stream, parser_context)
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = body.count(b"\n", 0, error.start) + 1
            raise ParseError(f"The body is not UTF-8, at line {line}.") from None


def read_bounded(stream: IO[bytes], parser_context: Mapping[str, Any] | None) -> bytes:
    """
    Return a body of at most `most_bytes` of its view, or of the settings' limit if the view has none.

    Raises:
        RequestDataTooBig: the body is longer. Django checks the length only if a view reads the body as a whole.
    """
    most = getattr((parser_context or {}).get("view"), "most_bytes", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    body = stream.read(most + 1)
    if len(body) > most:
        raise RequestDataTooBig
    return body


def read_json(body: bytes) -> object:
    """
    Return the value of a body of JSON in UTF-8.

    Raises:
        ParseError: the body is not JSON, repeats a member, or has a value that cannot be stored.
    """
    try:
        read = json.loads(
            body.decode(),
            object_pairs_hook=_object_without_repeats,
            parse_constant=_refuse_constant,
            parse_float=_finite_number,
        )
    except UnicodeDecodeError as error:
        raise ParseError(f"The body is not UTF-8, at byte {error.start}.") from None
    except json.JSONDecodeError as error:
        raise ParseError(f"The body is not JSON: {error.msg}, at line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise ParseError("The body is nested too deeply.") from None
    except ValueError:
        # Python raises this for whole numbers of more than some thousand digits.
        raise ParseError("The body has a number that is out of range.") from None
    for text in _texts_in(read):
        if "\0" in text:
            raise ParseError("The body has a text with a NUL character, which cannot be stored.")
        if _HALF_OF_A_PAIR.search(text):
            raise ParseError("The body has a text with half a surrogate pair, which is not a character.")
    return read


def json_in(text: str, *, name: str = "The text") -> object:
    """
    Return the value of JSON that a person typed, in a field or a file of this name.

    Raises:
        ValueError: `read_json` refuses it.
    """
    try:
        return read_json(text.encode())
    except ParseError as error:
        raise ValueError(str(error).replace(_BODY, name, 1)) from None


def _object_without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(members)
    if len(read) < len(members):
        raise ParseError(f"The body has the key {_first_repeated(members)[:40]!r} twice.")
    return read


def _first_repeated(members: list[tuple[str, Any]]) -> str:
    """
    Return the first name that occurs a second time. One pass is enough, because strangers may send very many members.
    """
    seen: set[str] = set()
    for name, _value in members:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is repeated")


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError(f"The body is not JSON: there is no {name}.")


def _finite_number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ParseError(f"The body has a number that is out of range: {digits[:40]}.")
    return number


def _texts_in(body: object) -> Iterator[str]:
    """
    Yield every text of a body, including keys. It is not recursive, because the body may be nested as deeply as the
    stack allows.
    """
    waiting = [body]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as members:
                yield from members
                waiting.extend(members.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass
