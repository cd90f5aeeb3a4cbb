"""Resolves names below .test to the loopback interface, in the processes of one test."""

import socket

_getaddrinfo = socket.getaddrinfo


def _with_test_names(host, *arguments, **options):
    is_ours = isinstance(host, str) and host.endswith(".test")
    return _getaddrinfo("127.0.0.1" if is_ours else host, *arguments, **options)


socket.getaddrinfo = _with_test_names
