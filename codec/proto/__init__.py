"""The messages of Pulsar's protocol: ``pulsar_api.proto`` in our words, and the code made from it.

Everything else imports the generated module from here, as ``from pcli.codec.proto import pb``.
"""

from pcli.codec.proto import pulsar_api_pb2 as pb

__all__ = ["pb"]
