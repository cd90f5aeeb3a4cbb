"""
The service that asks authorities. It decides which authorities get a question about which user, and limits the number
and the time of questions. It uses no database.
"""
