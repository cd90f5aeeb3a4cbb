"""
Verdicts: the reason why a document, a host, a job or the whole crawl does not go faster. Arithmetic over facts, no I/O.

Pages, API and commands read the facts and show the verdict that comes back. They add no reasons of their own.
The limits, and the moments at which they open, are the ones by which stuffing schedules (`jobs.throttling`).
"""
