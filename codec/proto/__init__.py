"""The messages of Pulsar's protocol: ``pulsar_api.proto`` with this project's comments, and the code generated from it.

All other modules import the generated module from here, as ``from pcli.codec.proto import pb``.
"""

from pcli.codec.proto import pulsar_api_pb2 as pb

__all__ = ["pb"]
