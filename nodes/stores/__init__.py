"""
Stores: places outside of the database that keep files, such as archives and backups.

A store is a directory (`dir:/path`) or a bucket of an S3-compatible server (`s3://bucket/prefix`). Both keep the same
contract, which `port.py` describes. `opening.open_store` returns the store of an address.
"""
