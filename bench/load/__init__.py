"""Generated load with ground truth: a simple broker's traffic as a capture, every fact of it written beside it.

``settings`` (what can be asked for, the named workloads), ``cast`` (connections, topics, producers, consumers),
``traffic`` (which frame when, as columns), ``wording`` (frames' bytes), ``segments`` (streams to TCP segments, and what
the capture makes of them), ``records`` (segments to a file), ``truth`` (what happened), ``making`` (all of it
together), ``judge`` (tables against the truth).
"""
