"""The demo: the whole river in twenty seconds, in a home of its own."""
