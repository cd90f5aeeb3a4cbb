"""
Stages in child processes: the pool of a worker's children, and the work that they do.

An item crosses the pipe field by field: its facts as JSON, its body as bytes. In an answer, a body that the stage did
not change is not repeated.
"""

import base64
import datetime as dt
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from django.conf import settings

from jobs.connectors.transformation import registry
from jobs.connectors.transformation.base import Item, Refused, Transformation, Unavailable
from jobs.extraction.pool import ChildPool, ChildrenBroken, PoolLimits
from jobs.extraction.result import ExtractionFailed, Reason, storable
from jobs.extraction.work import Facts, warm_up

# Largest number of transformations that a child keeps open.
_MOST_OPEN: Final = 256
# Delay of another attempt after a child could not start (seconds).
_AGAIN_AFTER: Final = 30.0
# Fields of an item with their types; all others are texts.
_BODY, _MOMENT, _METADATA = "body", "originated_at", "metadata"
_SAME_BODY: Final = "same_body"


class Children:
    """The children of one worker. The object is made and used inside one event loop."""

    def __init__(self, limits: PoolLimits, *, plugins: Sequence[str]) -> None:
        """`plugins` are the kinds that a setting names."""
        self._pool = ChildPool(limits, work=f"{__name__}:STAGES", arguments={"plugins": list(plugins)})

    @property
    def processes(self) -> list[int]:
        """Return the process ids of the children."""
        return self._pool.processes

    async def transform(self, kind: str, given: str, item: Item) -> Sequence[Item] | Refused:
        """
        Transform an item by a stage of this kind, with its settings as JSON.

        Raises:
            Unavailable: no child can start.
            ExtractionFailed: the child failed with this item.
        """
        asked = {"kind": kind, "given": given, "item": _facts_of(item), "has_body": item.body is not None}
        try:
            answer = await self._pool.ask(asked, item.body or b"")
        except ChildrenBroken as broken:
            raise Unavailable(f"{str(broken).capitalize()}.", retry_after=_AGAIN_AFTER) from broken
        try:
            return _result_of(answer, item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ExtractionFailed(Reason.CRASH, "invalid answer") from error

    async def close(self) -> None:
        """End all children."""
        await self._pool.close()


class _Stages:
    """The work of a child: it executes stages, and opens each stage once."""

    def prepare(self, arguments: Facts) -> None:
        # The settings of the program contain secrets, and a child must not have them.
        settings.configure(CRAWLCTL_TRANSFORMATIONS=tuple(arguments["plugins"]), USE_I18N=False)
        registry.installed()
        warm_up()

    def do(self, facts: Facts, body: bytes) -> Facts:
        item = _item_of(facts["item"], body if facts["has_body"] else None)
        result = _opened(facts["kind"], facts["given"]).transform(item)
        if isinstance(result, Refused):
            return {"refused": {"code": result.code, "reason": result.reason}}
        return {"items": [_answered(found, item) for found in result]}


STAGES: Final = _Stages()


@functools.lru_cache(maxsize=_MOST_OPEN)
def _opened(kind: str, given: str) -> Transformation:
    return registry.open_stage(kind, json.loads(given))


def _facts_of(item: Item) -> dict[str, Any]:
    """Return the fields of an item as values of JSON, without its body."""
    facts = {one.name: getattr(item, one.name) for one in fields(item) if one.name != _BODY}
    moment: dt.datetime | None = facts[_MOMENT]
    return {**facts, _MOMENT: None if moment is None else moment.isoformat()}


def _answered(found: Item, asked: Item) -> dict[str, Any]:
    facts = _facts_of(found)
    if found.body is not None:
        is_same = found.body is asked.body
        facts |= {_SAME_BODY: True} if is_same else {_BODY: base64.b64encode(found.body).decode("ascii")}
    return facts


def _result_of(answer: Mapping[str, Any], asked: Item) -> Sequence[Item] | Refused:
    """
    Return the result in the answer of a child.

    Raises: KeyError, TypeError, ValueError, AttributeError: the answer has no valid result. A document may have taken
    control of the child, so the answer may have any form.
    """
    if "refused" in answer:
        return Refused(_text(answer["refused"]["code"]), _text(answer["refused"]["reason"]))
    items = []
    for facts in answer["items"]:
        encoded = facts.get(_BODY)
        body = asked.body if facts.get(_SAME_BODY) else None if encoded is None else base64.b64decode(encoded)
        items.append(_item_of(facts, body))
    if not items:
        raise ValueError("no item")
    return items


def _item_of(facts: Mapping[str, Any], body: bytes | None) -> Item:
    given: dict[str, Any] = {}
    for one in fields(Item):
        value = facts.get(one.name)
        if one.name == _MOMENT:
            given[_MOMENT] = None if value is None else dt.datetime.fromisoformat(value)
        elif one.name == _METADATA:
            given[_METADATA] = {_text(name): tuple(map(_text, values)) for name, values in facts[_METADATA].items()}
        elif one.name != _BODY:
            given[one.name] = _text(facts[one.name])
    return Item(body=body, **given)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return storable(value)
