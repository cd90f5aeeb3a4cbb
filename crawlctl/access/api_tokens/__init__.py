"""
Long-lived API tokens: a program sends requests for the user that owns the token.

A token has a scope, a role. Its requests may do what both this role and the owner may do at that moment. A token never
manages tokens, so a leaked one cannot outlive its revocation.
"""
