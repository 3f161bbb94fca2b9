"""The executor `afir`: `ge` with CANN's AutoFuse, which makes chains of operators into one kernel."""

from __future__ import annotations

from npu_common.graph.executors.run_ge import GeExecutor

FLAGS = "--enable_autofuse=true;--autofuse_enable_pass=reduce,concat,slice,split,gather,transpose"


def make() -> GeExecutor:
    return GeExecutor("afir", FLAGS)
