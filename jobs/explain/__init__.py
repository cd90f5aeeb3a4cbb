"""
Explanations: the gates between an address and an output, in order, for one address.

The gates are those of the crawl. The rules of connectors judge scope and robots.txt as a worker does, and the verdict
on a document decides which of the gates of scheduling is closed (`jobs.verdicts`). Nothing here schedules.
"""
