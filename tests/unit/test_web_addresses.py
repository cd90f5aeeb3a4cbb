"""Proves that public addresses are accepted, and private addresses are refused in every spelling."""

from jobs.connectors.repository.web.addresses import is_public
from tests.support.tables import each_row


@each_row(
    "address",
    ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001:80b::200e",
     "::ffff:8.8.8.8", "2002:808:808::1", "64:ff9b::808:808", "::8.8.8.8"],
)  # fmt: skip
def test_the_public_internet_may_be_connected_to(address):
    assert is_public(address)


@each_row(
    "address",
    ["127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
     "100.64.0.1", "192.0.0.8", "192.0.0.9", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
     "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
     "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "ff0e::1",
     "2001:db8::1", "2001::1", "3fff::1", "5f00::1", "100::1", "64:ff9b:1::1", "64:ff9b:1::808:808",
     "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
     "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"],
)  # fmt: skip
def test_private_addresses_are_refused_in_every_spelling(address):
    assert not is_public(address)
