"""The socket at which a command listens, by default one that only this machine reaches."""

from __future__ import annotations

import ipaddress
import socket

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError


def listen(host: str, port: int, exposed: bool = False) -> socket.socket:
    """Return a socket that listens; InvalidArgumentError if others could reach it and that was not requested."""
    positive("port", port, 65535, least=0)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        local = ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
    except (OSError, OverflowError, ValueError) as error:
        raise InvalidArgumentError(f"--host {host!r} --port {port} is not an address to listen at: {error}.") from error
    if not local and not exposed:
        raise InvalidArgumentError(
            f"--host {host!r} can be reached by other machines, and the page has no password: whoever reaches it reads all "
            "documents. Give --expose too if that is meant."
        )
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(address)
        server.listen()
    except OSError as error:
        server.close()
        raise InvalidArgumentError(
            f"--port {port} of {host} is not free ({error.strerror}); give another, or 0 for any."
        ) from error
    return server
