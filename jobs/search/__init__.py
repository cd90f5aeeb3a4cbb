"""
The search page and its operation in the API.

Each search is one of a reader: the user of the request, or another one that an administrator names. The authorities
answer which tokens the reader has, and the query returns only documents that these tokens may see. Roles are about the
control of the crawl, so no role sees more documents than another one.
"""
