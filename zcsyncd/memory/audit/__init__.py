"""The rules: a snapshot to findings. Pure."""
