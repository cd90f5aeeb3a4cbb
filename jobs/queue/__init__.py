"""
The queue: what moves a document, one transaction each. The only SQL that touches documents.

`discover` names them, `stuff` chooses due ones into batches, `take` gives a worker a batch, `flush`
writes outcomes, `release` gives documents back, `wake` tells who waits.

All of it runs on plain psycopg connections in autocommit mode with explicit transactions. Locks are
taken in one order everywhere: MainTerm, Node, ThrottleGroup, Job, Budget, Bin by id, Lane by id,
Batch, QueueItem by (hash, job), IndexedDocument by (output, hash). What depends on a lock is read in a
later statement than the one that took it: a single statement reads from before its lock wait.
"""
