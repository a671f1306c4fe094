"""The addresses of YARN's resource managers, from the configuration of Hadoop.

Hadoop's client retries for 15 minutes if no resource manager responds; pcli therefore checks the addresses first.
Names and default values are those of Hadoop's yarn-default.xml.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from pcli.codec.errors import LocalError

_PREFIX: Final = "yarn.resourcemanager."
_VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def resource_managers(conf: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> list[tuple[str, int]]:
    """Return host and port of each resource manager; none if an address contains a variable.

    ``conf`` contains settings of Spark, of which ``spark.hadoop.…`` override the files. Raise LocalError if neither
    HADOOP_CONF_DIR nor YARN_CONF_DIR names a folder with a readable yarn-site.xml.
    """
    properties = _properties(environment)
    properties |= {key.removeprefix("spark.hadoop."): value for key, value in conf.items()}
    ids = ["", *properties.get(f"{_PREFIX}ha.rm-ids", "").split(",")]
    available = properties.get(f"{_PREFIX}ha.enabled", "").strip().lower() == "true"
    addresses = [_address(properties, f".{one.strip()}" if one else "") for one in (ids[1:] if available else ids[:1])]
    found = [address.rpartition(":") for address in addresses]
    return [(host, int(port)) for host, _, port in found if "$" not in host and port.isdecimal()]


def _address(properties: Mapping[str, str], suffix: str) -> str:
    host = properties.get(f"{_PREFIX}hostname{suffix}", "0.0.0.0").strip()  # noqa: S104  (Hadoop's default)
    address = properties.get(f"{_PREFIX}address{suffix}", f"{host}:8032").strip()
    return address.replace(f"${{{_PREFIX}hostname}}", host)


def _properties(environment: Mapping[str, str]) -> dict[str, str]:
    folders = [environment[name] for name in _VARIABLES if environment.get(name)]
    if not folders:
        raise LocalError("--master yarn: set HADOOP_CONF_DIR to the folder of core-site.xml and yarn-site.xml")
    for folder in folders:
        path = Path(folder, "yarn-site.xml")
        if path.is_file():
            return _read(path)
    raise LocalError(f"--master yarn: {folders[0]} (HADOOP_CONF_DIR) contains no yarn-site.xml")


def _read(path: Path) -> dict[str, str]:
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314  (the configuration is the user's own)
    except (OSError, ElementTree.ParseError) as error:
        raise LocalError(f"--master yarn: {path}: {error}") from None
    return {one.findtext("name", "").strip(): one.findtext("value", "") for one in root.iter("property")}
