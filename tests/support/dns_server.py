"""
A DNS server with one TXT record: `python -m tests.support.dns_server NAME TEXT`. It prints the port on which it
listens, at a loopback address.
"""

import socket
import sys

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset


def answer(query, name, text):
    """Return the answer to a query: the record, or that the name does not exist."""
    response = dns.message.make_response(query)
    response.flags |= dns.flags.AA
    (question,) = query.question
    if question.name == dns.name.from_text(name) and question.rdtype == dns.rdatatype.TXT:
        response.answer.append(
            dns.rrset.from_text(name, 1, "IN", "TXT", '"other" "text"', f'"{text[:9]}" "{text[9:]}"')
        )
    else:
        response.set_rcode(dns.rcode.NXDOMAIN)
    return response


def serve(name, text):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.bind(("127.0.0.1", 0))
        sys.stdout.write(f"{door.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            asked, sender = door.recvfrom(4096)
            door.sendto(answer(dns.message.from_wire(asked), name, text).to_wire(), sender)


if __name__ == "__main__":
    serve(f"{sys.argv[1]}.", sys.argv[2])
