"""
Backups of the whole database in a store, and their restore into an empty data directory.

A backup is a physical copy of the database server by PostgreSQL's own tools. It counts once its description is in the
store, which is written last. With a passphrase the backup is sealed, and has the secret key and the settings.
"""
