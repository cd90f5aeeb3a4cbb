"""
Metrics: figures of the crawl (`crawl`) and of the whole cluster (`cluster`), all figures (`table`), and their page in
the docs (`manual`).
"""
