"""When a file was made: tells it from one that got its number on the disk since.

A disk deals the number of a removed file to the next one. Where a source's files are removed once
they were taken, a number alone would take a new file for one that was taken and touched.
"""

import ctypes
import os
import struct

HERE = -100
BIRTH = 0x800
SIZE = 256
MASK_AT, BIRTH_AT = 0, 80
"""Where in ``struct statx`` (Linux, the same on every machine) the kernel says what it knows, and
the birth: seconds and nanoseconds."""


def born(path: str) -> int:
    """When a file was made, nanoseconds since the epoch; 0: nobody can tell."""
    about = ctypes.create_string_buffer(SIZE)
    try:
        failed = ctypes.CDLL(None).statx(HERE, os.fsencode(path), 0, BIRTH, about)
    except AttributeError:  # a C library without it
        return 0
    (known,) = struct.unpack_from("I", about, MASK_AT)
    if failed or not known & BIRTH:
        return 0
    seconds, rest = struct.unpack_from("qI", about, BIRTH_AT)
    return int(seconds) * 10**9 + int(rest)
