"""The addresses of the resource managers, and errors of a configuration of Hadoop."""

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.jobs.session import open_context
from pcli.spark.jobs.yarn_addresses import resource_managers


def configuration(folder, **properties):
    """Write yarn-site.xml; ``__`` in a name stands for a dot, ``_`` for a hyphen. Return the environment."""
    entries = [
        f"<property><name>yarn.resourcemanager.{name.replace('__', '.').replace('_', '-')}</name>"
        f"<value>{value}</value></property>"
        for name, value in properties.items()
    ]
    (folder / "yarn-site.xml").write_text(f"<configuration>{''.join(entries)}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


@pytest.mark.parametrize(
    ("properties", "addresses"),
    [
        ({}, [("0.0.0.0", 8032)]),
        ({"hostname": "rm"}, [("rm", 8032)]),
        ({"hostname": "rm", "address": "${yarn.resourcemanager.hostname}:8050"}, [("rm", 8050)]),
        ({"address": "${host}:8050"}, []),
        (
            {"ha__enabled": "true", "ha__rm_ids": "rm1, rm2", "hostname__rm1": "a", "address__rm2": "b:8050"},
            [("a", 8032), ("b", 8050)],
        ),
    ],
)
def test_addresses(tmp_path, properties, addresses):
    assert resource_managers({}, configuration(tmp_path, **properties)) == addresses


def test_the_folder_may_be_named_by_either_variable_and_settings_of_spark_take_precedence(tmp_path):
    named = {"HADOOP_CONF_DIR": str(tmp_path / "none"), "YARN_CONF_DIR": str(tmp_path)}
    configuration(tmp_path, address="rm:1")
    assert resource_managers({}, named) == [("rm", 1)]
    assert resource_managers({"spark.hadoop.yarn.resourcemanager.address": "other:2"}, named) == [("other", 2)]


def test_a_resource_manager_that_does_not_respond_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", configuration(tmp_path, address="127.0.0.1:1")["HADOOP_CONF_DIR"])
    with pytest.raises(LocalError) as error, open_context("yarn"):
        pass
    assert str(error.value) == "--master yarn: no resource manager responds at 127.0.0.1:1"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "set HADOOP_CONF_DIR to the folder of core-site.xml and yarn-site.xml"),
        ({"HADOOP_CONF_DIR": "/nowhere"}, r"/nowhere \(HADOOP_CONF_DIR\) contains no yarn-site.xml"),
    ],
)
def test_a_missing_configuration_is_one_line(environment, message):
    with pytest.raises(LocalError, match=message):
        resource_managers({}, environment)


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(LocalError, match=r"yarn-site\.xml: no element found"):
        resource_managers({}, {"HADOOP_CONF_DIR": str(tmp_path)})
