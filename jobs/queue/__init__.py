"""
The document queue. Each operation is one transaction. Only the SQL of this folder reads and changes documents for a
crawl.

`discover` inserts seeds, `stuff` claims due documents into batches, and `take` gives a worker a batch. `flush` writes
outcomes, `release` returns documents unprocessed, and `wake` makes lanes ready and notifies listeners.

All of it runs on plain psycopg connections in autocommit mode with explicit transactions. Locks are taken in one order
everywhere, which ARCHITECTURE.md lists. Data that depends on a lock is read by a later statement than the one that locks: a
statement takes its snapshot before it waits for a lock.
"""
