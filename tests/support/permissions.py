"""Permissions that count for root, too."""

import ctypes
import os

CAP_DAC_OVERRIDE = 1
VERSION_3 = 0x20080522  # of the kernel's capability sets: two words each


def heed_permissions() -> None:
    """Let this process write only what its permissions say, also where it is root's.

    It still reads everything, unlike another user, from whom root's home folder is hidden, and with
    it a clone there.
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(VERSION_3, 0), (ctypes.c_uint32 * 6)()
    failed = libc.capget(header, sets)
    sets[0] &= ~(1 << CAP_DAC_OVERRIDE)  # of those in effect
    if failed or libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "the capabilities of this process stay as they are")
