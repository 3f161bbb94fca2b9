// How a program's parameters and results are laid out over its devices.
#include "pjrt/abi.h"
#include "pjrt/executable.h"
#include "pjrt/extensions.h"

namespace npu::pjrt {
namespace {

// Null for the list: the program says nothing.
template <typename Args>
void answer(Args& args, std::size_t& count, const Compiled::Side& side) {
    count = side.count;
    args.shardings = side.shardings.empty() ? nullptr : side.shardings.data();
    args.sharding_sizes = side.shardings.empty() ? nullptr : side.sharding_sizes.data();
}

void parameters(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args) {
    answer(args, args.num_parameters, (*need(args.executable, "executable")).parameters());
}

void results(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args) {
    answer(args, args.num_outputs, (*need(args.executable, "executable")).results());
}

}  // namespace

PJRT_Extension_Base* shardings_extension(PJRT_Extension_Base* next) {
    static PJRT_Shardings_Extension extension{};
    extension.base = {sizeof extension, PJRT_Extension_Type_Shardings, next};
    extension.PJRT_Shardings_PJRT_Executable_ParameterShardings = extension_slot<parameters>();
    extension.PJRT_Shardings_PJRT_Executable_OutputShardings = extension_slot<results>();
    return &extension.base;
}

}  // namespace npu::pjrt
