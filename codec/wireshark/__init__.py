"""The generator of a dissector for Wireshark."""

from pcli.codec.wireshark.lua_dissector import lua_dissector

__all__ = ["lua_dissector"]
