"""An aclnn operator by its name: what it takes, a call, its result, and what is said of a wrong argument."""

import numpy as np

from npu_common import runtime
from npu_common.runtime import ops

print(ops.signature("aclnnSoftmax"))

host = np.random.default_rng(0).standard_normal((4, 1000), dtype=np.float32)
x = runtime.asarray(host)
y = runtime.empty_like(x)
ops.call("aclnnSoftmax", x, dim=-1, out=y)  # in order or by CANN's names; put on the stream, not waited for

exp = np.exp(host - host.max(-1, keepdims=True))
np.testing.assert_allclose(y.numpy(), exp / exp.sum(-1, keepdims=True), rtol=1e-5)

try:
    ops.call("aclnnSoftmax", x, dim=0.5, out=y)
except TypeError as error:
    print(error)
print(f"from {runtime.origin('operators', 'aclnnSoftmax').file}, CANN {runtime.version()}")
print("right")
