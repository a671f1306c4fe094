"""Frames as columns: the facts of the object path for terabytes, by numpy and pyarrow over windows of capture bytes.

Rooms, in the order of the data: ``fields`` (what commands and metadata say), ``reading`` (bytes to places of frames),
``seams`` (splits that were read apart, put together), and over the frames ``lives`` (messages, exchanges), ``permits``
and ``observing`` (frames shuffled to where the rules look at them). ``columns`` is what they hand each other,
``schema`` how tables are written down.

What is ordinary is done for all frames at once; what is not goes through the objects of codec.capture and codec.observe
and comes back as rows. So both ways say the same, and the tests hold them to that on every capture.
"""

__all__: list[str] = []
