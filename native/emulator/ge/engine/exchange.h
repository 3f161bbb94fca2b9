// Collectives of a graph: Hcom* operators as calls of HCCL on the graph's stream.
#pragma once

#include "ge/engine/static_run.h"

namespace npu::ge {

/// Whether the operator reads counts from its inputs, which must be there before the call.
bool reads_counts(const Step& step);

/// Queues the collective. Throws GraphError: no communicator of that group, an operator or reduction that is
/// not implemented, HCCL's refusal.
void start(const Exchange& exchange, aclrtStream stream);

}  // namespace npu::ge
