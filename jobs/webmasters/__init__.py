"""
Pages for the webmasters of crawled hosts. They need no login, and are off by default.

A page shows the crawler, and the figures of one host if a setting allows it. A host whose figures are hidden looks like
an unknown host, so visitors cannot find out which hosts are crawled.
"""
