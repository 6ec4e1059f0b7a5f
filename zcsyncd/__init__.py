"""zcsyncd: watches, audits and announces the memory that coding agents share."""

__version__ = "0.1.0"
