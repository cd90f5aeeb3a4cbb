"""`manage.py repository NAME VERB`: the actions of a repository's page."""

from jobs import connections
from jobs.management.connection_verbs import ConnectionCommand
from jobs.models import RepositoryConnection


class Command(ConnectionCommand):
    help = "Show a repository, or ask something of it. clear-history: the main manager forgets what was done for it by now."
    model = RepositoryConnection
    noun = "repository"
    verbs = {"clear-history": (connections.clear_history, "The history of {} is being cleared.")}
