"""The layouts that are known, in the order in which they are asked. Pure."""

from __future__ import annotations

from zcsyncd.layouts.layout import Layout
from zcsyncd.layouts.zcode import ZCODE

LAYOUTS: tuple[Layout, ...] = (ZCODE,)


def layout_named(name: str) -> Layout | None:
    """Give the layout of that name; None for a name that is not known."""
    return next((layout for layout in LAYOUTS if layout.name == name), None)
