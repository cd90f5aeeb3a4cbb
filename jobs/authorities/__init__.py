"""
Authorities: the access tokens of users.

Connections to authorities and mappers are configured here (`models.py`, `verbs.py`), each of a kind below
`jobs.connectors.authority`. The service (`service/`) asks all authorities at the same time. The service stores nothing:
an answer depends on the connections, on the systems behind them, and on a cache with a lifetime. `threaded_service.py` connects the
service with the database. No crawl waits for the service.
"""
