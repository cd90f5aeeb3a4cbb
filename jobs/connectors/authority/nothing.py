"""The null authority, which finds every user and gives no token, and the null mapper, which keeps every name."""

from typing import Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.authority.kind import Access, AuthorityKind, MapperKind, Status
from jobs.connectors.schema import NOTHING


class Nothing:
    """The null authority and the null mapper, in one class."""

    async def access(self, _user: str) -> Access:
        return Access(Status.AUTHORIZED)

    async def map(self, user: str) -> str:
        return user

    async def check(self) -> None:
        return

    async def close(self) -> None:
        return


AUTHORITY: Final = AuthorityKind(
    name="null", label=_("Null (no tokens)"), configuration=NOTHING, open=lambda _values, _limits: Nothing()
)
MAPPER: Final = MapperKind(
    name="null", label=_("Null (same name)"), configuration=NOTHING, open=lambda _values, _limits: Nothing()
)
