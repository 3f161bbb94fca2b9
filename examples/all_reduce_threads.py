"""An all-reduce over four NPUs by four threads of one process. Across processes: Communicator(root, rank=..., size=...)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from npu_common import runtime
from npu_common.collectives import Communicator, ReduceOp

RANKS = 4


def work(communicator: Communicator) -> np.ndarray:
    rank = communicator.rank
    with runtime.Stream(communicator.device):
        x = runtime.full(1_000_000, rank + 1, device=communicator.device)
        total = communicator.all_reduce(x)
        largest = communicator.all_reduce(x, op=ReduceOp.MAX)
        return np.array([total.numpy()[-1], largest.numpy()[0]])


communicators = Communicator.all(range(RANKS))
with ThreadPoolExecutor(RANKS) as pool:
    results = list(pool.map(work, communicators))
for communicator in communicators:
    communicator.close()

for result in results:
    np.testing.assert_array_equal(result, [1 + 2 + 3 + 4, 4])
print(f"{RANKS} ranks: sum {results[0][0]:.0f}, maximum {results[0][1]:.0f}")
print("right")
