"""The pipelines of a worker's jobs: a document that was read goes through the stages before its outcome is flushed."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.conf import settings

from jobs.connectors.repository.base import Delivery, Ending, Outcome, Record
from jobs.connectors.transformation.base import Item, Refused, Unavailable
from jobs.connectors.transformation.children import Children
from jobs.connectors.transformation.running import Pipeline
from jobs.extraction.pool import PoolLimits
from jobs.lifecycle.activity import ActivityName

UNAVAILABLE = "STAGE_UNAVAILABLE"


class Pipelines:
    """Runs the pipelines of one worker. Its child processes start with the first document of a stage that needs one."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._children: Children | None = None

    async def run(self, outcome: Outcome, pipeline: Pipeline) -> Outcome:
        """Return the outcome of a document with the results of its job's stages, one for each output."""
        assert outcome.item is not None
        assert outcome.content is not None
        began = time.monotonic()
        try:
            items = (outcome.item, *outcome.part_items)
            deliveries = await pipeline.run(items, outcome.content, parts=outcome.parts, pool=self)
        except Unavailable as unavailable:
            return _retried(outcome, unavailable, began=began)
        return decided(replace(outcome, item=None, part_items=()), deliveries)

    async def transform(self, kind: str, given: str, item: Item) -> Sequence[Item] | Refused:
        """Transform an item by a stage of this kind, in a child process."""
        if self._children is None:
            self._children = Children(self._limits, plugins=settings.CRAWLCTL_TRANSFORMATIONS)
        return await self._children.transform(kind, given, item)

    async def close(self) -> None:
        if self._children is not None:
            await self._children.close()


def decided(outcome: Outcome, deliveries: Mapping[int, Delivery]) -> Outcome:
    """
    Return the outcome of a document whose outputs get these results.

    The document is indexed if an output gets it. If no output gets the document and a stage failed, the document fails,
    and the outputs behind that stage keep it. Otherwise a stage refused the document, and it leaves its outputs.
    """
    if any(delivery.content is not None for delivery in deliveries.values()):
        return replace(outcome, deliveries=deliveries)
    document = outcome.document
    failed = next((delivery for delivery in deliveries.values() if delivery.failed), None)
    if failed is not None:
        return replace(
            outcome,
            ending=Ending.FAILED,
            code=failed.code,
            version=document.version,
            validators=document.validators,
            content=None,
            deliveries=deliveries,
        )
    code = next((delivery.code for delivery in deliveries.values()), outcome.code)
    return replace(
        outcome, ending=Ending.EXCLUDED, code=code, version="", content=None, removes=True, deliveries=deliveries
    )


def _retried(outcome: Outcome, unavailable: Unavailable, *, began: float) -> Outcome:
    """Return the outcome of a document that is read again when a server of a stage answers."""
    document = outcome.document
    record = Record(
        ActivityName.TRANSFORMATION.value,
        began,
        time.monotonic() - began,
        0,
        document.identifier,
        UNAVAILABLE,
        str(unavailable),
    )
    return replace(
        outcome,
        ending=Ending.RETRY,
        code=UNAVAILABLE,
        version=document.version,
        validators=document.validators,
        content=None,
        item=None,
        part_items=(),
        references=None,
        exchange=None,
        retry_after=unavailable.retry_after,
        records=[*outcome.records, record],
    )
