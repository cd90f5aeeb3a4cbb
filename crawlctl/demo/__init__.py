"""The synthetic site: many pages on a few loopback hosts, and the exact expectation of a crawl of it."""
