"""Surefoot trains legged robots in thousands of parallel environments, and every run proves what it
learned."""

__version__ = "0.1.0"
