// The layouts extension, which JAX asks for default layouts. All are row-major.
#include "pjrt/abi.h"
#include "pjrt/buffer.h"
#include "pjrt/executable.h"
#include "pjrt/extensions.h"
#include "pjrt/layout.h"

namespace npu::pjrt {
namespace {

void destroy(PJRT_Layouts_MemoryLayout_Destroy_Args& args) { delete args.layout; }

// The text lives as long as the layout, but jaxlib deletes it by itself.
void serialise(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
    auto bytes = std::make_unique<Bytes>(need(args.layout, "layout").text());
    args.serialized_bytes = bytes->text.data();
    args.serialized_bytes_size = bytes->text.size();
    args.serialized_layout_deleter = delete_bytes;
    args.serialized_layout = bytes.release();
}

void of_client(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args) {
    args.layout = new Layout(args.num_dims);
}

void of_topology(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args& args) {
    args.layout = new Layout(args.num_dims);
}

void of_buffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
    args.layout = new Layout(need(args.buffer, "buffer").shape().dims.size());
}

template <typename Args>
void answer(Args& args, std::size_t& count, const Compiled::Side& side) {
    count = side.count;
    args.layouts = const_cast<Layout**>(side.layouts.data());  // as the API has it; nobody writes
}

void of_results(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
    answer(args, args.num_outputs, (*need(args.executable, "executable")).results());
}

void of_parameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
    answer(args, args.num_parameters, (*need(args.executable, "executable")).parameters());
}

}  // namespace

PJRT_Extension_Base* layouts_extension(PJRT_Extension_Base* next) {
    static PJRT_Layouts_Extension extension{};
    extension.base = {sizeof extension, PJRT_Extension_Type_Layouts, next};
    extension.PJRT_Layouts_MemoryLayout_Destroy = extension_slot<destroy>();
    extension.PJRT_Layouts_MemoryLayout_Serialize = extension_slot<serialise>();
    extension.PJRT_Layouts_PJRT_Client_GetDefaultLayout = extension_slot<of_client>();
    extension.PJRT_Layouts_PJRT_Buffer_MemoryLayout = extension_slot<of_buffer>();
    extension.PJRT_Layouts_PJRT_Topology_GetDefaultLayout = extension_slot<of_topology>();
    extension.PJRT_Layouts_PJRT_Executable_GetOutputLayouts = extension_slot<of_results>();
    extension.PJRT_Layouts_PJRT_Executable_GetParameterLayouts = extension_slot<of_parameters>();
    return &extension.base;
}

}  // namespace npu::pjrt
