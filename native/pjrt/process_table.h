// What the processes of one program tell each other through the caller's key-value store.
#pragma once

#include <string>
#include <vector>

#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

struct ProcessTable {
    int process = 0;
    std::vector<int> counts;         ///< devices of each process
    std::vector<std::string> kinds;  ///< and their SoCs
};

/// From the options node_id and num_nodes; alone without them. Waits for the other processes. Throws Status.
ProcessTable exchange(const PJRT_Client_Create_Args& args);

}  // namespace npu::pjrt
