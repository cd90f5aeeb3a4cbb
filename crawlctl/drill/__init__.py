"""
Drills: they inject a fault on purpose, and measure and store how the cluster recovers.

By default a drill runs in a sandbox: nodes in a separate scope that crawl the synthetic site, so that no other crawl is
affected. A drill runs on the cluster itself only after a confirmation.
"""
