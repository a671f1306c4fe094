"""A report of the tables, for people: one HTML file with charts, without Spark.

``gathering`` and ``histograms`` make figures of the messages in one pass, ``message_sections`` and ``other_sections``
put figures into words and ``charts``, ``page`` puts the page together from page.html.
"""

from pcli.spark.report.page import page_of

__all__ = ["page_of"]
