"""Functions, sinks and sources on a broker without the functions worker: responses of a real 4.2.4."""

import pytest

FORM = "multipart/form-data; boundary=x"
REASON = "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"


@pytest.mark.parametrize(
    ("method", "path", "media", "status"),
    [
        ("GET", "v3/functions/t/n", "application/json", 409),
        ("GET", "v3/functions/connectors", "", 409),
        ("GET", "v3/functions/builtins", "", 409),
        ("GET", "v3/sinks/builtinsinks", "", 409),
        ("GET", "v3/source/builtinsources/x/configdefinition", "", 409),
        ("GET", "v3/sources/t/n/x/status", "", 409),
        ("GET", "v3/sources/t/n", "text/plain", 415),
        ("DELETE", "v3/functions/t/n/x", "", 409),
        ("POST", "v3/sinks/t/n/x/restart", "", 409),
        ("POST", "v3/sinks/t/n/x/restart", FORM, 415),
        ("POST", "v3/functions/t/n/x", FORM, 409),
        ("POST", "v3/functions/t/n/x", "", 400),
        ("POST", "v3/functions/upload", "multipart/form-data", 400),
        ("PUT", "v3/sources/t/n/x", "application/json", 415),
        ("POST", "v3/functions/t/n/x/trigger", FORM, 409),
        ("GET", "v2/functions/t/n", "", 409),
        ("POST", "v2/functions/t/n/x/start", "application/json", 404),
        ("GET", "v3/functions", "", 404),
        ("GET", "v3/functions/t/n/x/y/z/1", "", 404),
        ("PATCH", "v3/functions/t/n/x", "", 405),
        ("GET", "v3/other/t/n", "", 404),
    ],
)
def test_responses(rest, method, path, media, status):
    answer = rest(method, f"/admin/{path}", media=media)
    assert answer.status == status
    if status == 409:
        assert answer.json == {"reason": REASON}
