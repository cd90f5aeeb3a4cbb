"""`manage.py output NAME VERB`: the actions of an output's page."""

from jobs.management.connection_verbs import ConnectionCommand
from jobs.models import OutputConnection
from jobs.verbs import connections


class Command(ConnectionCommand):
    help = (
        "Show an output, or perform an action on it. reindex: the next run of each job writes all its documents again. clear: workers remove "
        "all its content."
    )
    model = OutputConnection
    noun = "output"
    verbs = {
        "reindex": (connections.index_again, "The next run of each job writes all its documents to {} again."),
        "clear": (connections.clear, "Workers are removing all content of {}."),
    }
