"""Generated load with ground truth: the traffic of a simple broker as a capture, and files with every fact in it.

``settings`` (the named workloads), ``participants`` (connections, topics, producers, consumers), ``traffic`` (events as
columns), ``session_commands`` (frames before and after the traffic), ``frame_encoder`` (bytes of frames), ``segments``
(streams to TCP segments), ``pcap_records`` (segments to files), ``truth_files`` and ``ground_truth`` (the facts,
written and read), ``load_writer`` (all together), ``table_check`` (tables against the truth), ``process_cost``.
"""
