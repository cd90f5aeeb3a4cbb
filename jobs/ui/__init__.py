"""
The pages for watching a crawl.

One module of `jobs.queries` reads a page, and a screen (`job_screen`) puts it into words. A template prints these words, and
`crawlctl.live` sends them to open pages. So after a change an open page shows the same as a reloaded one.
"""
