"""An HTML report of the tables. It is one file with charts, and its creation does not need Spark.

``report_data`` loads the messages into a temporary database, and ``message_series`` queries it. ``incident_rows``
computes the incidents of the findings. The modules ``…_sections`` convert figures to text, and to charts with
``vega_charts``.
``file_page`` composes them, and ``page`` builds the HTML from page.html, page.css and page.js.
"""

from pcli.spark.report.file_page import page_of
from pcli.spark.report.selection import Selection

__all__ = ["Selection", "page_of"]
