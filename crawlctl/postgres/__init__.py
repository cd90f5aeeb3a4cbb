"""
The embedded PostgreSQL: the database of an installation that names none.

It is an ordinary server, run from the binaries of a wheel, on a directory of the clone. Only its lifetime is special:
it runs as long as any of our processes uses it, however they end.

*Users* are our processes. Each opens `users.lock` itself and holds it shared. The kernel releases it when the process
ends, by return or by kill -9. A user never upgrades that lock, because a refused upgrade drops the lock that was held.
Each process opens the file itself, because processes that share an opening share one lock.

The *guardian* is a process without terminal, pipe or parent. It starts the server as its child, so that it always knows
whether the server runs: the pid of a child cannot be reused until the child has been waited for. Then it repeatedly
requests `users.lock` exclusively. If it gets the lock, no process uses the server. It stops the server under the lock,
cleans up, and ends. A new user at that moment is refused the shared lock, waits, and starts the server again. If the
server dies, the guardian starts it again at the same address. If the guardian is killed, the kernel asks the server for
a smart shutdown (it serves its open sessions and then ends). The next process that calls `ensure_running` starts a new
guardian and a new server at the same address.

The guardian holds `guardian.lock` all its life, so that other processes can check its life without trusting a pid. The
one process that starts a guardian holds `starting.lock`.

No process may start a server without holding `users.lock` shared, and none may stop it in good order without holding it
exclusively. So starting and stopping never overlap.
"""
