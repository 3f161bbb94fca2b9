// What the processes of one program tell each other through the caller's key-value store.
#pragma once

#include <string>
#include <vector>

#include "pjrt/key_value_store.h"

namespace npu::pjrt {

struct ProcessTable {
    int process = 0;
    std::vector<int> counts;         ///< devices of each process
    std::vector<std::string> kinds;  ///< and their SoCs
};

/// From the options node_id and num_nodes; alone without them. Waits for the other processes. Throws Status.
ProcessTable exchange(const PJRT_Client_Create_Args& args, const KeyValueStore& store);

}  // namespace npu::pjrt
