"""The graph language of the build tree, where npu_common has no native part installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

BUILT = Path(__file__).parents[3] / "build" / "native" / "python"


def pytest_configure() -> None:
    if importlib.util.find_spec("npu_common._cann") is not None:
        return
    sys.path.append(str(BUILT))
    import _graph

    sys.modules["npu_common._cann"] = _graph
