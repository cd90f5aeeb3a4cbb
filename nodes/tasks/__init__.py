"""
Background tasks: work that no crawl waits for, with Recruiter's model on PostgreSQL.

Our tables decide, and django-q2 executes. A task is a row of exactly one table: `Task` until its last attempt, then
`ArchivedTask`. The *recruiter*, a duty of the main manager, assigns due tasks to the workers of the *roster* under its
term. A worker gets the id of its task and an epoch, which grows with each assignment. It claims the row, runs the kind
of the task, and ends or archives the row in one transaction. The worker of an older epoch therefore changes nothing.

A task runs at least once. It runs again only if its worker was lost, or if its retry policy says so.
"""
