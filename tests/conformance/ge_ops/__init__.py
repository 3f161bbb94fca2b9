"""The catalogue of the executors, a table by family, one line per operator and case."""

from tests.conformance.ge_ops import indexing, movement, pointwise, products, reductions
from tests.conformance.ge_ops.case import Op

OPS: list[Op] = [*pointwise.OPS, *reductions.OPS, *movement.OPS, *indexing.OPS, *products.OPS]
