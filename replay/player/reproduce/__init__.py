"""Python source of a pytest test that repeats a replayed conversation (`pcli reproduce`)."""

__all__: list[str] = []
