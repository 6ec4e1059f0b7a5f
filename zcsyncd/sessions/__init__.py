"""Beside the river: who has read what, and what they have not been told. Pure."""
