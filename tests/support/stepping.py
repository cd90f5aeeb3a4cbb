"""Managers whose duties a test performs one by one, without loops or processes."""

from collections.abc import Callable

from jobs.duties.context import Pass
from jobs.duties.read_definitions import ReadDefinitions
from jobs.queries.charging import Charging
from jobs.queue.offering.hold import GroupHeld
from nodes.membership.fences import TermHeld
from tests.support.cluster import NOON, elect_main, register_node, seconds


class Manager:
    """A manager that is not the only one, and reads its groups again at each step."""

    term: TermHeld | None = None

    def __init__(self, connection, **facts):
        self.connection, self.now = connection, NOON
        self.charging, self.definitions = Charging(), ReadDefinitions()
        # Nodes here send no heartbeats, so the timeout must be longer than any test.
        self.node = register_node(connection, "manager", **({"timeout": seconds(1800)} | facts))

    @property
    def id(self):
        return self.node.id

    def step(self, *duties: Callable[[Pass], int]) -> int:
        """Perform these duties once, in this order, and return the amount of moved work."""
        return sum(duty(self._pass()) for duty in duties)

    def _pass(self) -> Pass:
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
            charging=self.charging,
            definitions=self.definitions,
        )


class Main(Manager):
    """The main manager."""

    def __init__(self, connection):
        super().__init__(connection)
        self.term = elect_main(connection, self.node)
