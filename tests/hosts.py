"""Hosts of a test: network namespaces behind a bridge, whose cables can be pulled.

Needs root and iproute2. No traffic leaves the bridge.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.runtime.cluster.standalone import Site

AVAILABLE = os.geteuid() == 0 and shutil.which("ip") is not None
REMEDY = "hosts are network namespaces: run as root, with iproute2 installed"


@dataclass(frozen=True)
class Hosts:
    """So many hosts, and this machine, on one network.

    Attributes:
        tag: begins the names of everything.
        net: first three numbers of every address.
    """

    tag: str
    net: str

    @property
    def here(self) -> str:
        """Address of this machine: drivers and the master live there."""
        return f"{self.net}.1"

    @property
    def site(self) -> Site:
        """Where nodes run: a host each."""
        return Site(
            host=lambda n: f"{self.net}.{10 + n}",
            prefix=lambda n: ("ip", "netns", "exec", f"{self.tag}-{n}"),
        )

    def cut(self, number: int) -> None:
        """Pull a host's cable, at the end of the switch: the host keeps its routes."""
        _ip("link", "set", f"{self.tag}{number}a", "down")

    def heal(self, number: int) -> None:
        """Put it back."""
        _ip("link", "set", f"{self.tag}{number}a", "up")

    def _make(self, number: int) -> None:
        space, inner, outer = f"{self.tag}-{number}", f"{self.tag}{number}b", f"{self.tag}{number}a"
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", inner, "netns", space)
        _ip("link", "set", outer, "master", f"{self.tag}br", "up")
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "addr", "add", f"{self.net}.{10 + number}/24", "dev", inner)
        _ip("-n", space, "link", "set", inner, "up")


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """So many hosts; gone at the end."""
    found = Hosts(f"pn{os.getpid() % 10_000}", f"10.87.{os.getpid() % 250}")
    bridge, numbers = f"{found.tag}br", range(1, count + 1)
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{found.here}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number in numbers:
            found._make(number)
        yield found
    finally:
        for number in numbers:
            _ip("netns", "del", f"{found.tag}-{number}", check=False)
        _ip("link", "del", bridge, check=False)


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)
