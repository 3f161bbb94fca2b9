"""A graph of CANN's operators: built, checked, improved, compiled, run; and the bytes the graph engine takes."""

import numpy as np

from npu_common import runtime
from npu_common.graph import Builder, GraphError, to_model
from npu_common.graph.executors import CompileOptions, executor
from npu_common.graph.passes import standard
from npu_common.graph.text import dump

g = Builder("attention")
q, k, v = (g.input(name, "float32", (1, 4, 128, 64)) for name in "qkv")
scores = g.add("BatchMatMulV2", q, g.add("Transpose", k, [0, 1, 3, 2])) / 8.0
exp = g.add("Exp", scores - g.add("ReduceMax", scores, [-1], keep_dims=True))
g.output(g.add("BatchMatMulV2", exp / g.add("ReduceSum", exp, [-1], keep_dims=True), v))

executable = executor("aclnn").compile(g.graph, CompileOptions())
host = [np.random.default_rng(i).standard_normal((1, 4, 128, 64), dtype=np.float32) for i in range(3)]
result = runtime.empty((1, 4, 128, 64))
executable.run([runtime.asarray(each) for each in host], [result], runtime.current_stream())

a, b, c = (each.astype(np.float64) for each in host)
weights = np.exp(a @ b.swapaxes(-1, -2) / 8)
np.testing.assert_allclose(result.numpy(), weights / weights.sum(-1, keepdims=True) @ c, rtol=1e-4, atol=1e-5)

print(standard().run(g.graph))  # what compile() did to its own copy
print(dump(g.graph))
print(f"{len(to_model(g.graph))} bytes of ge.proto.ModelDef")
try:
    g.add("SoftmaxV2", q, axis=-1)
except GraphError as error:
    print(error)
print("right")
