"""The unit files that ship with the package. Door: files."""

from __future__ import annotations

import os

import zcsyncd
from zcsyncd.errors import Refused


def template(*parts: str) -> bytes:
    """Give the file `service/…` as it ships; in a checkout it lies beside the package, in a wheel inside of it.

    Raises: Refused, for an installation from which it is missing.
    """
    package = os.path.dirname(os.path.abspath(zcsyncd.__file__))
    for place in (package, os.path.dirname(package)):
        try:
            with open(os.path.join(place, "service", *parts), "rb") as file:
                return file.read()
        except FileNotFoundError:
            continue
    raise Refused(
        f"this installation has no {'/'.join(('service', *parts))}", hint="install zcsyncd again, whole"
    )
