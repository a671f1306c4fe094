"""A thin skin over the library: one module per command, each calls one library function.

stdout is data, stderr is talk, exit codes mean something (``output.py``).
"""

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"
"""The version of the distribution pulsar-pcli."""
