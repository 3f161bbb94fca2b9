#include "bindings/bind.h"

PYBIND11_MODULE(_cann, module) {
    using namespace npu::bindings;
    module.doc() =
        "CANN for Python: native/cann as it is. npu_common.runtime and npu_common.collectives are what to "
        "use.";
    bind_errors(module);
    bind_runtime(module);
    bind_memory(module);
    bind_array(module);
    bind_operators(module);
    bind_communicator(module);
    bind_graph_session(module);
    bind_graph(module);
}
