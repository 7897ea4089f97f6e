"""Who may look into Penstock's folders: their owner, and users let through by name."""

import errno
import os
import stat
import struct
from pathlib import Path

from penstock.core.errors import ConfigError

OWNER_ONLY = 0o077
"""The umask of every process that writes below the home folder or into the lake."""

_ACCESS = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")  # tag, permissions, id: acl(5), as Linux stores it
_OWNER, _USER, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID = 0xFFFFFFFF


def close(folder: Path) -> None:
    """Take a folder from everybody but its owner, and those that ``let_through`` names."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    # With an access list the group's bits are its mask, not the group's rights.
    kept = 0o010 if _users(_entries(folder)) else 0
    if mode & OWNER_ONLY & ~kept:
        folder.chmod(mode & (0o700 | kept))


def let_through(folder: Path, uid: int) -> None:
    """Let one user pass through a folder, and nobody else: an entry of its access list.

    Raises:
        ConfigError: the file system has no access lists.
    """
    if folder.stat().st_mode & stat.S_IXOTH:
        return
    entries = _entries(folder)
    if entries.get((_USER, uid), 0) & 1:
        return
    entries[_USER, uid] = entries.get((_USER, uid), 0) | 1
    entries[_MASK, _NO_ID] = entries.get((_MASK, _NO_ID), entries[_GROUP, _NO_ID]) | 1
    packed = (_ENTRY.pack(tag, rights, who) for (tag, who), rights in sorted(entries.items()))
    try:
        os.setxattr(folder, _ACCESS, _VERSION + b"".join(packed))
    except OSError as refused:
        raise ConfigError(
            f"PostgreSQL does not run as root, and the user it runs as cannot be let through"
            f" {folder} alone ({refused.strerror}). Start Penstock as a user of its own, or put it"
            f" where everybody may pass; chmod o+x {folder} lets everybody through."
        ) from refused


def _entries(folder: Path) -> dict[tuple[int, int], int]:
    """Rights by tag and id; of a folder without a list, what its mode says."""
    try:
        packed = os.getxattr(folder, _ACCESS)[len(_VERSION) :]
    except OSError as none:
        if none.errno not in {errno.ENODATA, errno.EOPNOTSUPP}:
            raise
        mode = folder.stat().st_mode
        shifts = ((_OWNER, 6), (_GROUP, 3), (_OTHER, 0))
        return {(tag, _NO_ID): mode >> shift & 7 for tag, shift in shifts}
    return {(tag, who): rights for tag, rights, who in _ENTRY.iter_unpack(packed)}


def _users(entries: dict[tuple[int, int], int]) -> bool:
    return any(tag == _USER for tag, _ in entries)
