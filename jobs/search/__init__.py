"""
The search page and its operation in the API.

Each search is for a reader: the user of the request, or a user that an administrator names. The authorities return the
tokens of the reader, and the query returns only documents that these tokens may see. The role of a user does not
matter, because roles are permissions to control the crawl.
"""
