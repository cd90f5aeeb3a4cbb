"""
Base classes for lists of the set-up: lists of bounded cost, lists of rows that the system owns, and questions before a
change.
"""
