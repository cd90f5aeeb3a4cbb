"""
Long-lived API tokens: a program sends requests for the user that owns the token.

The scope of a token is a role. A request with the token needs a permission that both this role and the owner have at
that moment. A token never manages tokens, so a leaked one cannot outlive its revocation.
"""
