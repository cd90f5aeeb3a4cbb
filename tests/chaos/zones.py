"""Time zones that exist in no system, in the file format of a system."""

import os
import struct
import zoneinfo


def search_path(zones):
    """Return the PYTHONTZPATH that also finds the zones of that directory."""
    return os.pathsep.join([str(zones), *zoneinfo.TZPATH])


def write_zone(path, *, usual, changes):
    """Write a zone as RFC 8536 defines it (version 1): its usual offset, and pairs of (moment, offset from then on)."""
    offsets = [usual, *(offset for _, offset in changes)]
    counts = (0, 0, 0, len(changes), len(offsets), len(b"NIGHT\0"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"TZif"
        + bytes(16)
        + struct.pack(">6l", *counts)
        + struct.pack(f">{len(changes)}l", *(moment for moment, _ in changes))
        + bytes(range(1, len(offsets)))
        + b"".join(struct.pack(">lbb", offset, 0, 0) for offset in offsets)
        + b"NIGHT\0"
    )
