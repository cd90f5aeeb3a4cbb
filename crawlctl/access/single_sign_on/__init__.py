"""
Single sign-on by OpenID Connect: users log in at a provider, and its groups give them their roles.

A user of the provider is identified by issuer and subject, never by a name or an address, because a provider may give
these to another person. Each login stores the roles of that moment. `crawlctl sso login-link USER` is the way in while
the provider is down.
"""
