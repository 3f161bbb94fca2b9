"""What makes a graph smaller and faster without changing what it means.

`exact()` keeps every bit; `standard()` also puts CANN's fused operators in the place of their expansions, which
rounds differently, within the tolerances that tests/unit/graph/test_fusion.py states.
"""

from npu_common.graph.passes.algebra import ALGEBRA
from npu_common.graph.passes.common_subexpressions import COMMON_SUBEXPRESSIONS
from npu_common.graph.passes.constant_folding import CONSTANT_FOLDING
from npu_common.graph.passes.dead_code import DEAD_CODE
from npu_common.graph.passes.fuse_activation import FUSE_ACTIVATION
from npu_common.graph.passes.fuse_attention import FUSE_ATTENTION
from npu_common.graph.passes.fuse_attention_gradient import FUSE_ATTENTION_GRADIENT
from npu_common.graph.passes.fuse_axpy import FUSE_AXPY
from npu_common.graph.passes.fuse_norm import FUSE_NORM
from npu_common.graph.passes.fuse_rotary import FUSE_ROTARY
from npu_common.graph.passes.manager import Pass, PassManager, Report, Statistic
from npu_common.graph.passes.matmul_transpose import MATMUL_TRANSPOSE
from npu_common.graph.passes.reshapes import RESHAPES
from npu_common.graph.passes.stacks import STACKS

_EXACT = (CONSTANT_FOLDING, ALGEBRA, STACKS, RESHAPES, MATMUL_TRANSPOSE, COMMON_SUBEXPRESSIONS, DEAD_CODE)
_FUSION = (FUSE_NORM, FUSE_ROTARY, FUSE_ACTIVATION, FUSE_ATTENTION_GRADIENT, FUSE_ATTENTION)


def exact(check: bool = False) -> PassManager:
    return PassManager(_EXACT, check=check)


def standard(check: bool = False, *, chains: bool = False) -> PassManager:
    """`chains`: the executor runs chains of elementwise operators in one go and is not helped by pairs of them."""
    # Clean-up first to its end: the patterns are written for what it leaves.
    last = () if chains else (FUSE_AXPY, DEAD_CODE)
    return PassManager((*_EXACT, *_FUSION), last=last, check=check)


__all__ = ["Pass", "PassManager", "Report", "Statistic", "exact", "standard"]
