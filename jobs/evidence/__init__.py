"""
Evidence of politeness: the requests to a host by minute, as a chain of hashed blocks, and its check against the
access log of the site. Arithmetic and texts: it needs no database, so the check works on a file alone.
"""
