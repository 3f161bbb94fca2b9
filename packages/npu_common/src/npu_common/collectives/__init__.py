"""HCCL's collectives over arrays on NPUs, for ranks that are processes or threads.

root = Communicator.root_info()                          # on rank 0; the bytes go to the others by any channel
comm = Communicator(root, rank=rank, size=size, device=rank)
comm.all_reduce(x, out=y)
"""

from npu_common.collectives.communicator import Communicator, Receive, ReduceOp, Send

__all__ = ["Communicator", "Receive", "ReduceOp", "Send"]
