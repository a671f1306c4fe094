"""The error pages of the real broker's HTTP server (Jetty)."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pcli.minibroker.admin.endpoint import Reply

if TYPE_CHECKING:
    from starlette.requests import Request

    from pcli.minibroker.versions import Version

_SERVLET: Final = "org.glassfish.jersey.servlet.ServletContainer-0"
_PAGE: Final = """<html>
<head>
<meta http-equiv="Content-Type" content="text/html;charset=ISO-8859-1"/>
<title>Error {status} {message}</title>
</head>
<body>{line}<h2>HTTP ERROR {status} {message}</h2>
<table>
<tr><th>URI:</th><td>{url}</td></tr>
<tr><th>STATUS:</th><td>{status}</td></tr>
<tr><th>MESSAGE:</th><td>{message}</td></tr>
{servlet}</table>
<hr/><a href="https://jetty.org/">Powered by Jetty:// {jetty}</a><hr/>

</body>
</html>
"""


def error_page(version: Version, status: int, request: Request, text: str = "") -> Reply:
    """Return the page for a status: HTML, or JSON if the client accepts it.

    The text is the phrase of the status if ``text`` is empty. In both formats, it is escaped for XML. The response to
    PUT and DELETE has no body.
    """
    if request.method in ("PUT", "DELETE"):
        return Reply(status, b"")
    phrase = "Request failed." if status == 500 else HTTPStatus(status).phrase
    message = escape(text or phrase, quote=False).replace('"', "&quot;")
    whole = version.shows_url_in_error_page
    url = _url(request) if whole else request.scope["path"]
    accepted = [part.partition(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    if accepted[0] == "application/json" and not {"text/html", "text/*", "*/*"} & set(accepted):
        servlet = {} if whole else {"servlet": _SERVLET}
        fields = {**servlet, "message": message, "url": url, "status": str(status)}
        lines = ",\n".join(f'"{name}":"{value}"' for name, value in fields.items())
        return Reply(status, f"{{\n{lines}\n}}".encode())
    page = _PAGE.format(
        status=status,
        message=message,
        url=escape(url),
        line="\n" if whole else "",
        servlet="" if whole else f"<tr><th>SERVLET:</th><td>{_SERVLET}</td></tr>\n",
        jetty=version.jetty,
    )
    return Reply(status, page.encode("latin-1", "replace"), media="text/html;charset=iso-8859-1")


def _url(request: Request) -> str:
    """Return the URL of a request as it was sent."""
    scope = request.scope
    query = scope["query_string"].decode("latin-1")
    host = request.headers.get("host", "")
    return f"{scope.get('scheme', 'http')}://{host}{scope['path']}{'?' if query else ''}{query}"
