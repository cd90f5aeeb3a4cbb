"""
Operations on many documents, chosen by a filter: retry, expire, re-read, drop and forget.

An operator sees the count and examples first, and confirms them by a token. A background task then works in chunks.
"""
