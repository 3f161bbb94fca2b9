// HCCL. Arrays are checked by npu_common.collectives; here are addresses and counts.
#include "cann/communicator.h"

#include <pybind11/stl.h>

#include <cstring>

#include "bindings/bind.h"

namespace npu::bindings {
namespace {

using namespace cann;
using Counts = std::vector<uint64_t>;

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }

HcclDataType type_from(int code) { return static_cast<HcclDataType>(code); }
HcclReduceOp op_from(int code) { return static_cast<HcclReduceOp>(code); }

RootInfo root_from(const std::string& bytes) {
    RootInfo root;
    if (bytes.size() != root.size())
        throw std::invalid_argument("a communicator's root information has " + std::to_string(root.size()) +
                                    " bytes, not " + std::to_string(bytes.size()));
    std::memcpy(root.data(), bytes.data(), bytes.size());
    return root;
}

CommunicatorOptions options_from(std::string name, std::optional<uint32_t> buffer_megabytes,
                                 std::optional<bool> deterministic,
                                 std::optional<int32_t> execution_timeout) {
    return {std::move(name), buffer_megabytes, deterministic, execution_timeout};
}

using Class = py::class_<Communicator, std::shared_ptr<Communicator>>;

void bind_creation(Class& cls) {
    cls.def_static(
           "root_info",
           [](int device) {
               const RootInfo root = [&] {
                   py::gil_scoped_release release;
                   return Communicator::root_info(device);
               }();
               return py::bytes(reinterpret_cast<const char*>(root.data()), root.size());
           },
           py::arg("device"))
        .def_static(
            "join",
            [](const std::string& root, int rank, int size, int device, std::string name,
               std::optional<uint32_t> buffer, std::optional<bool> deterministic,
               std::optional<int32_t> timeout) {
                return let_go_without_gil(
                    Communicator::join(root_from(root), rank, size, device,
                                       options_from(std::move(name), buffer, deterministic, timeout)));
            },
            py::arg("root"), py::arg("rank"), py::arg("size"), py::arg("device"), py::arg("name"),
            py::arg("buffer_megabytes"), py::arg("deterministic"), py::arg("execution_timeout"), NoGil())
        .def_static(
            "all",
            [](const std::vector<int>& devices) {
                auto all = Communicator::all(devices);
                for (auto& each : all) each = let_go_without_gil(std::move(each));
                return all;
            },
            py::arg("devices"), NoGil())
        .def(
            "sub",
            [](Communicator& self, const std::vector<int>& ranks, uint64_t id, std::string name,
               std::optional<uint32_t> buffer, std::optional<bool> deterministic,
               std::optional<int32_t> timeout) {
                return let_go_without_gil(
                    self.sub(ranks, id, options_from(std::move(name), buffer, deterministic, timeout)));
            },
            py::arg("ranks"), py::arg("id"), py::arg("name"), py::arg("buffer_megabytes"),
            py::arg("deterministic"), py::arg("execution_timeout"), NoGil())
        .def_property_readonly("rank", &Communicator::rank)
        .def_property_readonly("size", &Communicator::size)
        .def_property_readonly("device", &Communicator::device)
        .def_property_readonly("name", &Communicator::name)
        .def_property_readonly("closed", &Communicator::closed)
        .def("close", &Communicator::close, NoGil())
        .def(
            "abort", [](Communicator& self, double timeout) { self.abort(*timeout_from(timeout)); },
            py::arg("timeout"), NoGil())
        .def("check_async_error", &Communicator::check_async_error, NoGil());
}

void bind_collectives(Class& cls) {
    using C = Communicator;
    using S = Stream;
    using A = uintptr_t;
    cls.def(
           "all_reduce",
           [](C& c, A x, A y, uint64_t n, int t, int op, const S& s) {
               c.all_reduce(at(x), at(y), n, type_from(t), op_from(op), s);
           },
           NoGil())
        .def(
            "broadcast",
            [](C& c, A x, uint64_t n, int t, int root, const S& s) {
                c.broadcast(at(x), n, type_from(t), root, s);
            },
            NoGil())
        .def(
            "reduce",
            [](C& c, A x, A y, uint64_t n, int t, int op, int root, const S& s) {
                c.reduce(at(x), at(y), n, type_from(t), op_from(op), root, s);
            },
            NoGil())
        .def(
            "reduce_scatter",
            [](C& c, A x, A y, uint64_t n, int t, int op, const S& s) {
                c.reduce_scatter(at(x), at(y), n, type_from(t), op_from(op), s);
            },
            NoGil())
        .def(
            "reduce_scatter_v",
            [](C& c, A x, const Counts& counts, const Counts& offsets, A y, int t, int op, const S& s) {
                c.reduce_scatter_v(at(x), counts, offsets, at(y), type_from(t), op_from(op), s);
            },
            NoGil())
        .def(
            "scatter",
            [](C& c, A x, A y, uint64_t n, int t, int root, const S& s) {
                c.scatter(at(x), at(y), n, type_from(t), root, s);
            },
            NoGil())
        .def(
            "all_gather",
            [](C& c, A x, A y, uint64_t n, int t, const S& s) {
                c.all_gather(at(x), at(y), n, type_from(t), s);
            },
            NoGil())
        .def(
            "all_gather_v",
            [](C& c, A x, uint64_t n, A y, const Counts& counts, const Counts& offsets, int t, const S& s) {
                c.all_gather_v(at(x), n, at(y), counts, offsets, type_from(t), s);
            },
            NoGil())
        .def(
            "all_to_all",
            [](C& c, A x, A y, uint64_t n, int t, const S& s) {
                c.all_to_all(at(x), at(y), n, type_from(t), s);
            },
            NoGil())
        .def(
            "all_to_all_v",
            [](C& c, A x, const Counts& sc, const Counts& so, A y, const Counts& rc, const Counts& ro, int t,
               const S& s) { c.all_to_all_v(at(x), {sc, so}, at(y), {rc, ro}, type_from(t), s); },
            NoGil())
        .def(
            "send",
            [](C& c, A x, uint64_t n, int t, int peer, const S& s) {
                c.send(at(x), n, type_from(t), peer, s);
            },
            NoGil())
        .def(
            "receive",
            [](C& c, A x, uint64_t n, int t, int peer, const S& s) {
                c.receive(at(x), n, type_from(t), peer, s);
            },
            NoGil())
        .def(
            "batch_send_receive",
            [](C& c, const std::vector<std::tuple<bool, A, uint64_t, int, uint32_t>>& messages, const S& s) {
                std::vector<HcclSendRecvItem> items;
                for (const auto& [sends, address, count, type, peer] : messages)
                    items.push_back(
                        {sends ? HCCL_SEND : HCCL_RECV, at(address), count, type_from(type), peer});
                c.batch_send_receive(items, s);
            },
            NoGil())
        .def("barrier", &C::barrier, NoGil());
}

}  // namespace

void bind_communicator(py::module_& module) {
    Class cls(module, "Communicator");
    bind_creation(cls);
    bind_collectives(cls);
}

}  // namespace npu::bindings
