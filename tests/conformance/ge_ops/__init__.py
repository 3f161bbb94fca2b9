"""The catalogue of the executors, a table by family, one line per operator and case."""

from tests.conformance.ge_ops import movement, pointwise, products, reductions
from tests.conformance.ge_ops.case import Op

OPS: list[Op] = [*pointwise.OPS, *reductions.OPS, *movement.OPS, *products.OPS]
