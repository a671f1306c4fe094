"""An HTML report of the tables. It is one file with charts, and its creation does not need Spark.

``message_figures`` and ``histograms`` compute figures of the messages in one pass. ``message_sections`` and
``other_sections`` convert figures to text, and to charts with ``charts``. ``page`` builds the page from page.html.
"""

from pcli.spark.report.page import page_of

__all__ = ["page_of"]
