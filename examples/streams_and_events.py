"""Two streams work at the same time; an event makes one wait for the other, and two events tell the time between."""

import numpy as np

from npu_common import runtime
from npu_common.runtime import Event, Stream, memory, ops

compute, copies = Stream(), Stream()
host = memory.pinned_empty((512, 512))  # page-locked, so that copies do not hold up the host
host[:] = np.random.default_rng(0).standard_normal((512, 512), dtype=np.float32)

start, end = Event(), Event()
start.record(copies)
with copies:
    x = runtime.empty(host.shape)
    x.copy_from(host, wait=False)
    uploaded = copies.record()

compute.wait(uploaded)  # explicit here; arrays also do it by themselves
with compute:
    y = runtime.empty_like(x)
    ops.call("aclnnMatmul", x, x, y, 0)
    end.record(compute)

end.synchronize()
print(f"upload and product: {end.elapsed_since(start):.2f} ms")
np.testing.assert_allclose(y.numpy(), host @ host, rtol=1e-3, atol=1e-3)
print("right")
