#include "pjrt/process_table.h"

#include "cann/runtime.h"
#include "pjrt/abi.h"
#include "pjrt/named_values.h"

namespace npu::pjrt {
namespace {

constexpr int kMostProcesses = 1 << 16;

std::string key_of(int process) { return "npu_pjrt/devices/" + std::to_string(process); }

// "8 Ascend910B2"
void read(const std::string& value, ProcessTable& table) {
    const auto space = value.find(' ');
    const std::string digits = value.substr(0, space);
    if (space == std::string::npos || digits.empty() || digits.size() > 4 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
        throw Status(PJRT_Error_Code_DATA_LOSS, "another process announced its devices as \"" + value + "\"");
    table.counts.push_back(std::stoi(digits));
    table.kinds.push_back(value.substr(space + 1));
}

}  // namespace

ProcessTable exchange(const PJRT_Client_Create_Args& args, const KeyValueStore& store) {
    const int64_t process = find_integer(args.create_options, args.num_options, "node_id").value_or(0);
    const int64_t processes = find_integer(args.create_options, args.num_options, "num_nodes").value_or(1);
    if (processes < 1 || processes > kMostProcesses || process < 0 || process >= processes)
        throw invalid("node_id " + std::to_string(process) + " of num_nodes " + std::to_string(processes) +
                      " is impossible");
    ProcessTable table;
    table.process = static_cast<int>(process);
    const std::string own = std::to_string(cann::device_count()) + " " + cann::soc_name();
    if (processes == 1) {
        read(own, table);
        return table;
    }
    if (!store.exists())
        throw invalid("a client of " + std::to_string(processes) +
                      " processes needs a key-value store; call jax.distributed.initialize first");
    store.put(key_of(table.process), own);
    for (int i = 0; i < processes; ++i) read(i == process ? own : store.get(key_of(i)), table);
    return table;
}

}  // namespace npu::pjrt
