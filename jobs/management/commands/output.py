"""`manage.py output NAME VERB`: the actions of an output's page."""

from jobs import connections
from jobs.management.connection_verbs import ConnectionCommand
from jobs.models import OutputConnection


class Command(ConnectionCommand):
    help = (
        "Show an output, or ask something of it. reindex: the next run of each job writes everything to it again. "
        "clear: workers take out of it everything that it holds."
    )
    model = OutputConnection
    noun = "output"
    verbs = {
        "reindex": (connections.index_again, "The next run of each job writes everything to {} again."),
        "clear": (connections.clear, "Workers are taking everything out of {}."),
    }
