"""
The delete guard decides whether the clean-up of a run may remove the documents that the run did not reach.

Arithmetic over counted facts, without I/O. `jobs/queue/removing/unreached.py` counts, `jobs/duties/guard.py` asks.
"""
