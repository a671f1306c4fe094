"""The table `permits`: permits of consumers over time.

Prefix sums across splits are used, so no task needs to hold a whole history.

- permit_buckets: permits granted by FLOWs and used by MESSAGEs, by session and second
- permit_sessions: the session to which each sum belongs, and the balance at its start
"""

__all__: list[str] = []
