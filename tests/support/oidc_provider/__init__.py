"""
A provider of OpenID Connect for tests: django-oauth-toolkit, as a separate process on a loopback port.

`python -m tests.support.oidc_provider REDIRECT_URI` prints its address, client and secret. A cookie `user` is the login
at the provider. `PUT /behaviour/` sets the groups of users, and faults of its ID tokens.
"""
