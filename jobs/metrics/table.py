"""All metrics, and the metrics that each kind of process shows."""

from typing import Final

from jobs.metrics import authority, cluster, crawl, process
from nodes.distributed.engine import metrics as of_distributed_jobs
from nodes.metrics import node_metrics
from nodes.metrics.kinds import Metric, Process

# The metrics below each heading of docs/metrics.md.
SECTIONS: Final[dict[str, tuple[Metric, ...]]] = {
    "Each process": process.METRICS,
    "Nodes": node_metrics.METRICS,
    "The crawl": crawl.METRICS,
    "The cluster, at the web server": cluster.METRICS,
    "Authorities": authority.METRICS,
    "Distributed jobs": (*of_distributed_jobs.METRICS, *of_distributed_jobs.JobMetrics("<id>").all),
}
# The metrics of single jobs appear only once there are jobs.
TABLE: Final[tuple[Metric, ...]] = (
    *process.METRICS,
    *node_metrics.METRICS,
    *crawl.METRICS,
    *cluster.METRICS,
    *authority.METRICS,
    *of_distributed_jobs.METRICS,
)


def shown_by(process: Process) -> tuple[Metric, ...]:
    """Return the metrics that this kind of process shows."""
    return tuple(metric for metric in TABLE if process in metric.shown_by)
