"""`manage.py repository NAME VERB`: the actions of a repository's page."""

from jobs.management.connection_verbs import ConnectionCommand
from jobs.models import RepositoryConnection
from jobs.verbs import connections


class Command(ConnectionCommand):
    help = "Show a repository, or perform an action on it. clear-history: the main manager removes its activity from the history."
    model = RepositoryConnection
    noun = "repository"
    verbs = {"clear-history": (connections.clear_history, "The history of {} is being cleared.")}
