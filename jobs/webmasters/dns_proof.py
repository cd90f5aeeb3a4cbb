"""The proof of control by a TXT record in the DNS, read with dnspython through the resolver of the system."""

from typing import Final

import dns.exception
import dns.resolver

# Time limit of a look-up with all its attempts (seconds).
_LIFETIME: Final = 4.0
# Largest number of compared texts of one name.
_MOST_TEXTS: Final = 50


def system_resolver() -> dns.resolver.Resolver:
    """Return the resolver of this machine's configuration."""
    return dns.resolver.Resolver()


def problem_of_record(name: str, token: str) -> str:
    """Return the reason why the TXT record of a name does not prove control, as a sentence; '' if it does."""
    try:
        answer = system_resolver().resolve(name, "TXT", lifetime=_LIFETIME, search=False)
        texts = [b"".join(record.strings) for record in list(answer)[:_MOST_TEXTS]]
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return f"{name} has no TXT record yet. A new record may take some minutes to appear."
    except dns.exception.DNSException as error:
        return f"The TXT record of {name} could not be read ({type(error).__name__}). Try again in a minute."
    if token.encode() in texts:
        return ""
    return f"The TXT record of {name} has another text. An old record may take some minutes to disappear."
