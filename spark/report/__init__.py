"""An HTML report of the tables: one file with charts, made without Spark.

``message_figures`` and ``histograms`` compute figures of the messages in one pass, ``message_sections`` and
``other_sections`` turn figures into text and ``charts``, and ``page`` builds the page from page.html.
"""

from pcli.spark.report.page import page_of

__all__ = ["page_of"]
