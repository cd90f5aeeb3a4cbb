"""Partitions: several databases, each with a cluster of its own, that crawl one set of jobs."""
