"""The kinds of channels by name, with their fields, their checks and their functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import BadSpecification, FieldKind, Schema
from jobs.notices.channels import email, posting
from jobs.notices.channels.letter import Letter, NotSent


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelKind:
    """A kind of channel. `check` returns the problems of typed values. `send` returns the answer of the receiver."""

    name: str
    label: str | Promise
    schema: Schema
    check: Callable[[Mapping[str, Any]], Mapping[str, list[str]]]
    send: Callable[[Mapping[str, Any], Letter], str]

    def problems(self, configuration: object) -> dict[str, list[str]]:
        """Return the problems of a configuration, by field."""
        if not isinstance(configuration, Mapping):
            return {"": ["A configuration is an object."]}
        found = self.schema.problems(configuration)
        return found or dict(self.check(self.schema.read(configuration)))

    def deliver(self, configuration: Mapping[str, Any], letter: Letter) -> str:
        """
        Send a message by a stored configuration; return the answer of the receiver.

        Raises:
            NotSent: the receiver did not accept the message.
        """
        try:
            values = self.schema.read(configuration)
        except BadSpecification as error:
            raise NotSent(f"the configuration cannot be used: {error}") from None
        return self.send(values, letter)

    @property
    def secrets(self) -> frozenset[str]:
        """Return the names of its secret fields."""
        return frozenset(field.name for field in self.schema.fields if field.kind is FieldKind.SECRET)


KINDS: Final[Mapping[str, ChannelKind]] = {
    kind.name: kind
    for kind in (
        ChannelKind(name="email", label=_("E-mail"), schema=email.SCHEMA, check=email.check, send=email.send),
        ChannelKind(
            name="webhook",
            label=_("Webhook"),
            schema=posting.WEBHOOK,
            check=posting.check,
            send=posting.send_webhook,
        ),
        ChannelKind(name="slack", label=_("Slack"), schema=posting.CHAT, check=posting.check, send=posting.send_slack),
        ChannelKind(
            name="rocket_chat",
            label=_("Rocket.Chat"),
            schema=posting.CHAT,
            check=posting.check,
            send=posting.send_rocket_chat,
        ),
    )
}


def find(name: str) -> ChannelKind:
    """
    Return the kind of this name.

    Raises:
        NotSent: the kind is not installed.
    """
    try:
        return KINDS[name]
    except KeyError:
        raise NotSent(f"there is no kind of channel {name}") from None
