"""
The pages for watching a crawl.

A module of `jobs.queries` reads the data of a page. A screen, such as `job_screen`, turns the data into words. A
template prints these words, and `crawlctl.live` sends them to open pages. So after a change, an open page shows the
same as a reloaded page.
"""
