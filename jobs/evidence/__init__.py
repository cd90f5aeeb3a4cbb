"""
Evidence of politeness: the requests to a host by minute, as a chain of hashed blocks, and its check against the
access log of the site. This package uses no database, so a file is enough for the check.
"""
