"""Local text: reading, packing, loading; and the small corpus of ``titan-npu data prepare``."""
