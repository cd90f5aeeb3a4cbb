"""A main whose duties a test performs one by one, without loops or processes."""

from collections.abc import Callable

from jobs.duties.context import Pass
from tests.cluster import NOON, elect_main, register_node


class Main:
    """The manager who is main, and owns all groups that there are."""

    def __init__(self, connection):
        self.connection, self.now = connection, NOON
        self.node = register_node(connection, "manager")
        self.term = elect_main(connection, self.node)

    def step(self, *duties: Callable[[Pass], int]) -> int:
        """Perform these once, in this order; returns how much was moved."""
        return sum(duty(self._pass()) for duty in duties)

    def _pass(self) -> Pass:
        from jobs.queue.hold import GroupHeld

        groups = self.connection.execute(
            "SELECT id, epoch FROM jobs_throttlegroup WHERE owner_id = %s AND state = 'owned' ORDER BY id",
            (self.node.id,),
        )
        return Pass(
            connection=self.connection,
            me=self.node.id,
            scope=self.node.scope,
            now=self.now,
            term=self.term,
            groups=tuple(GroupHeld(*row) for row in groups),
        )
