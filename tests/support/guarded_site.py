"""A site of a scripted source whose pages a job keeps in a search output. Runs of the job are stepped by hand."""

from jobs.lifecycle.job import Phase
from jobs.models import Job, OutputConnection, SearchDocument
from jobs.verbs import control
from tests.support.scripted import name_of
from tests.support.stepped_cluster import SteppedCluster

# Number of rounds of the cluster after which a run must have ended.
_ENOUGH = 60


class GuardedSite:
    """A site whose root links to `pages` pages. `run` crawls it to the end of a run, or until its removals wait."""

    def __init__(self, connection, world, *, pages=30, guard_percent=5, outputs=(), seeds=("root",), **facts):
        self.world = world
        self.cluster = SteppedCluster(connection)
        self.pages = [f"page{number}" for number in range(pages)]
        self.search = OutputConnection.objects.create(name="search", connector="search")
        self.put_root()
        for page in self.pages:
            world.put(page, text=f"text of {page}")
        self.job_id = world.make_job(
            "site", seeds=list(seeds), outputs=[self.search, *outputs], guard_percent=guard_percent, **facts
        ).pk

    @property
    def job(self):
        return Job.objects.get(pk=self.job_id)

    @property
    def held(self):
        """Return the names of the documents that the search output holds."""
        return {name_of(url) for url in SearchDocument.objects.filter(output=self.search).values_list("url", flat=True)}

    @property
    def everything(self):
        return {"root", *self.pages}

    def put_root(self, **facts):
        self.world.put("root", **({"text": "root", "links": self.pages} | facts))

    def run(self):
        """Start a run, let the cluster work until it has ended, and return the job."""
        self.ask("start")
        return self.halt()

    def ask(self, verb):
        return control.VERBS[verb].perform(self.job_id, made_by="operator", now=self.cluster.clock.at)

    def halt(self):
        for _ in range(_ENOUGH):
            if self.job.phase == Phase.INACTIVE:
                return self.job
            self.cluster.work()
        raise AssertionError(f"the job did not stop: {self.job.status}")
