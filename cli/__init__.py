"""The command line: one package per group of commands, one module per command.

stdout carries data, and stderr carries messages. ``common/output.py`` lists the exit codes.
"""

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.2.0"
"""The version of the distribution pulsar-pcli."""
