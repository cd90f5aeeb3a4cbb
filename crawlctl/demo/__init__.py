"""The synthetic site: many pages on a few loopback hosts, and the exact account of a crawl of it."""
