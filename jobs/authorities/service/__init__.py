"""
The service: it decides which authorities get a question about which user, how many at once, and for how long. It uses
no database.
"""
