"""
Metrics of the crawl (`crawl`) and of the whole cluster (`cluster`), all metrics (`table`), and their page in
the docs (`manual`).
"""
