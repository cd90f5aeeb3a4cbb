"""
The delete guard: whether the clean-up of a run may remove what the run did not reach, or has to ask first.

Arithmetic over counted facts, without I/O. `jobs/queue/unreached.py` counts, `jobs/duties/guard.py` asks.
"""
