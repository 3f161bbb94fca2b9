"""One training run on every parallel layout: the same losses on all. ``python -m tests.e2e.layouts --help``."""
