"""
The pages that people watch a crawl on.

A page is read by one module of `jobs.queries`, put into words by `screens`, and shown twice from the
same words: printed by a template, and sent to open pages by `crawlctl.live`. So what a page says
after a change is what it would say if it were loaded again.
"""
