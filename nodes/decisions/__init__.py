"""
What a node decides about its cluster, as arithmetic over one snapshot.

Nothing here reads a clock, a file or a database: the daemons and the simulator hand in what they saw
and get back frozen actions, which `nodes.membership` applies as guarded writes. A decision may rest
on a snapshot that is no longer true; the guard of the write is what makes that harmless.
"""
