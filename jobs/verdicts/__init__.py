"""
Verdicts: the reason why a document, a host, a job or the whole crawl does not go faster. Arithmetic over facts, no I/O.

Pages, API and commands read the facts, and show the verdict that comes back without a change. Verdicts use the same
limits, and the same moments at which these open, as stuffing (`jobs.throttling`).
"""
