"""
The document queue. During a crawl, only the SQL of this folder changes documents.

`seeds` inserts the documents of seeds, and `discover` those of references. `stuff` claims due documents into batches,
and `take` gives a worker a batch. `flush` writes outcomes, `release` returns documents unprocessed, and `wake` makes
lanes ready and notifies listeners.

Daemons run these functions on plain psycopg connections in autocommit mode. Locks are taken in one order everywhere,
which ARCHITECTURE.md lists. Data that depends on a lock is read by a later statement than the one that locks: a
statement takes its snapshot before it waits for a lock.
"""
