"""A kind of authority for tests. Each authority answers after the number of seconds in its configuration."""

import asyncio

from jobs.connectors.authority.kind import Access, AuthorityKind, Status
from jobs.connectors.schema import Field, FieldKind, Schema


class SlowAuthority:
    def __init__(self, values, _limits):
        self._seconds = values["seconds"]

    async def access(self, user):
        await asyncio.sleep(self._seconds)
        return Access(Status.AUTHORIZED, (f"token of {user}", "all"))

    async def check(self):
        await asyncio.sleep(self._seconds)

    async def close(self):
        return


SLOW = AuthorityKind(
    name="slow",
    label="Slow",
    configuration=Schema(
        (Field(name="seconds", kind=FieldKind.NUMBER, label="Seconds", least=0, most=60, is_required=True),)
    ),
    open=SlowAuthority,
)
