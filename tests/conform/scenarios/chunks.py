"""Rules about chunked messages that the shared scenarios do not cover."""


def permits_of_batches_before_chunks(s):
    """If the entries that are read contain a chunk, each batch counts as one permit; eight entries are sent."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    for n in range(4):
        p.send(f"m{n}", batch=3)
    for m in range(2):
        for i in range(3):
            chunk = {"is_chunk": True, "uuid": f"u{m}", "chunk_id": i, "num_chunks_from_msg": 3}
            p.send(f"part{i}", seq=100 + m, total_chunk_msg_size=15, **chunk)
    c.subscribe(t, "s", "Shared", initialPosition="Earliest")
    c.flow(8)
    c.flow(8)
