#include "ge/engine/exchange.h"

#include <map>

#include "cann/error_names.h"
#include "cann/hccl.h"

namespace npu::ge {
namespace {

/// One collective of a graph, on its way into HCCL.
struct Call {
    const Step& step;
    const Exchange& exchange;
    HcclComm comm;
    aclrtStream stream;

    void* in(std::size_t i = 0) const { return exchange.inputs.at(i).data_ptr(); }
    void* out(std::size_t i = 0) const { return exchange.outputs.at(i).data_ptr(); }
    uint64_t elements_in() const { return exchange.inputs.at(0).numel(); }
    uint64_t elements_out() const { return exchange.outputs.at(0).numel(); }
    std::vector<uint64_t> counts(std::size_t i) const {
        const at::Tensor wide = exchange.inputs.at(i).reshape({-1}).to(at::kLong).contiguous();
        return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
    }
    int64_t integer(const char* name) const { return std::get<int64_t>(step.attributes.at(name)); }
    HcclDataType type(const at::Tensor& tensor) const;
    HcclDataType type_in() const { return type(exchange.inputs.at(0)); }
    HcclDataType type_out() const { return type(exchange.outputs.at(0)); }
    HcclReduceOp reduction() const;
};

HcclDataType Call::type(const at::Tensor& tensor) const {
    static const std::map<at::ScalarType, HcclDataType> types{
        {at::kChar, HCCL_DATA_TYPE_INT8},      {at::kShort, HCCL_DATA_TYPE_INT16},
        {at::kInt, HCCL_DATA_TYPE_INT32},      {at::kLong, HCCL_DATA_TYPE_INT64},
        {at::kByte, HCCL_DATA_TYPE_UINT8},     {at::kHalf, HCCL_DATA_TYPE_FP16},
        {at::kFloat, HCCL_DATA_TYPE_FP32},     {at::kDouble, HCCL_DATA_TYPE_FP64},
        {at::kBFloat16, HCCL_DATA_TYPE_BFP16}, {at::kBool, HCCL_DATA_TYPE_UINT8},
    };
    const auto found = types.find(tensor.scalar_type());
    if (found == types.end())
        fail_at(step, std::string("HCCL has no data type for ") + c10::toString(tensor.scalar_type()));
    return found->second;
}

HcclReduceOp Call::reduction() const {
    static const std::map<std::string, HcclReduceOp, std::less<>> operations{{"sum", HCCL_REDUCE_SUM},
                                                                             {"prod", HCCL_REDUCE_PROD},
                                                                             {"max", HCCL_REDUCE_MAX},
                                                                             {"min", HCCL_REDUCE_MIN}};
    const auto& name = std::get<std::string>(step.attributes.at("reduction"));
    const auto found = operations.find(name);
    if (found == operations.end())
        fail_at(step, "its reduction is '" + name + "', not sum, prod, max or min");
    return found->second;
}

HcclResult broadcast(const Call& call) {
    for (std::size_t i = 0; i < call.exchange.outputs.size(); ++i) {
        const at::Tensor& output = call.exchange.outputs[i];
        const std::size_t bytes = output.nbytes();
        if (bytes > 0 && call.in(i) != call.out(i)) {
            if (aclrtMemcpyAsync(call.out(i), bytes, call.in(i), bytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                 call.stream) != ACL_SUCCESS)
                return HCCL_E_RUNTIME;
        }
        const HcclResult code =
            HcclBroadcast(call.out(i), output.numel(), call.type(output),
                          static_cast<uint32_t>(call.integer("root_rank")), call.comm, call.stream);
        if (code != HCCL_SUCCESS) return code;
    }
    return HCCL_SUCCESS;
}

uint32_t ranks(const Call& call) {
    uint32_t count = 1;
    HcclGetRankSize(call.comm, &count);
    return count;
}

using Starter = HcclResult (*)(const Call&);

const std::map<std::string_view, Starter>& starters() {
    static const std::map<std::string_view, Starter> table{
        {"HcomAllReduce",
         [](const Call& c) {
             return HcclAllReduce(c.in(), c.out(), c.elements_in(), c.type_in(), c.reduction(), c.comm,
                                  c.stream);
         }},
        {"HcomAllGather",
         [](const Call& c) {
             return HcclAllGather(c.in(), c.out(), c.elements_in(), c.type_in(), c.comm, c.stream);
         }},
        {"HcomReduceScatter",
         [](const Call& c) {
             return HcclReduceScatter(c.in(), c.out(), c.elements_out(), c.type_in(), c.reduction(), c.comm,
                                      c.stream);
         }},
        {"HcomBroadcast", broadcast},
        {"HcomReduce",
         [](const Call& c) {
             return HcclReduce(c.in(), c.out(), c.elements_in(), c.type_in(), c.reduction(),
                               static_cast<uint32_t>(c.integer("root_rank")), c.comm, c.stream);
         }},
        {"HcomAllToAll",
         [](const Call& c) {
             const uint64_t count = c.elements_in() / ranks(c);
             return HcclAlltoAll(c.in(), count, c.type_in(), c.out(), count, c.type_out(), c.comm, c.stream);
         }},
        {"HcomAllToAllV",
         [](const Call& c) {
             const auto sent = c.counts(1), sent_at = c.counts(2), received = c.counts(3),
                        received_at = c.counts(4);
             return HcclAlltoAllV(c.in(), sent.data(), sent_at.data(), c.type_in(), c.out(), received.data(),
                                  received_at.data(), c.type_out(), c.comm, c.stream);
         }},
        {"HcomSend",
         [](const Call& c) {
             return HcclSend(c.in(), c.elements_in(), c.type_in(),
                             static_cast<uint32_t>(c.integer("dest_rank")), c.comm, c.stream);
         }},
        {"HcomReceive",
         [](const Call& c) {
             return HcclRecv(c.out(), c.elements_out(), c.type_out(),
                             static_cast<uint32_t>(c.integer("src_rank")), c.comm, c.stream);
         }},
    };
    return table;
}

}  // namespace

bool reads_counts(const Step& step) { return step.op->name == "HcomAllToAllV"; }

void start(const Exchange& exchange, aclrtStream stream) {
    const Step& step = *exchange.step;
    const auto starter = starters().find(step.op->name);
    if (starter == starters().end())
        fail_at(step, "this collective is not implemented by the host emulator of CANN");
    const auto& group = std::get<std::string>(step.attributes.at("group"));
    HcclComm comm = nullptr;
    if (HcclCommGetHandleWithName(group.c_str(), &comm) != HCCL_SUCCESS)
        fail_at(step, "there is no communicator of the group '" + group + "' in this process");
    const HcclResult code = starter->second({step, exchange, comm, stream});
    if (code != HCCL_SUCCESS)
        fail_at(step, std::string(cann::hccl_result_name(code)) + ": " + aclGetRecentErrMsg());
}

}  // namespace npu::ge
