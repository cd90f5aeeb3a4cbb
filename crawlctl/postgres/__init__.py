"""
The embedded PostgreSQL: the database of an installation that names none.

It is an ordinary server, run from the binaries of a wheel, on a directory of the clone. What is
special is only how long it lives: as long as any process of ours uses it, however they end.

*Users* are our processes. Each opens `users.lock` itself and holds it shared; the kernel lets go
of it when the process ends, by return or by kill -9. Nobody upgrades that lock to keep it, because a
refused upgrade drops the lock that was held, and no two processes share one opening of the file,
because they would share one lock.

The *guardian* is a process without terminal, pipe or parent. It starts the server as its child, so
that it always knows whether the server runs: the number of a child cannot be given to another process
until the child has been waited for. Then it asks for `users.lock` exclusively, again and again. When it
gets it, nobody uses the server; holding the lock it stops the server, cleans up, and ends. A newcomer
in that moment is refused the shared lock, waits, and starts the server anew. If the server dies, the
guardian starts it again at the same address. If the guardian is killed, the kernel asks the server for
a smart shutdown (it serves its open sessions and then ends), and the next process that calls
`ensure_running` puts a new guardian and a new server in their places, at the same address.

The guardian holds `guardian.lock` all its life, so that its life can be asked for without trusting a
process number. `starting.lock` is held by the one process that starts a guardian.

No process may start a server without holding `users.lock` shared, and none may stop it in good order
without holding it exclusively: so starting and stopping never overlap.
"""
