"""
Drills: something is broken on purpose, and what the cluster makes of it is measured and kept.

On a sandbox by default: nodes in a scope of their own that crawl the synthetic site, so that nobody else's
work is touched. On the cluster itself only where it is confirmed.
"""
