"""
The manager: owns groups and stuffs them. The main manager also does the cluster's unique work.

`Manager` is one loop in one thread. Each pass reads the `Events` since the last pass, checks the term of the main
manager (`MainRole`), and performs the duties that are due (`duty_tables`).
"""

from jobs.loops.manager.manager import Manager, ManagerFailed

__all__ = ["Manager", "ManagerFailed"]
