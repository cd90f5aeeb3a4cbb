"""Partitions: several databases, each with a separate cluster, that crawl one set of jobs."""
