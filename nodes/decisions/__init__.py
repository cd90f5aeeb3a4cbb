"""
The decisions of a node about its cluster, as pure functions of one snapshot.

No function here reads a clock, a file or a database. The daemons and the simulator pass in their snapshots and get back
frozen actions, which `nodes.membership` applies as guarded writes. A decision may be based on an outdated snapshot. The
guard of the write makes that harmless.
"""
