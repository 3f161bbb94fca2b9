// libgraph: Graph (a serialised model), its nodes, and what the catalogue says of operators.
#include <fstream>
#include <iterator>

#include "ge/doors/error.h"
#include "ge/doors/ge_api.h"
#include "graph/catalogue.h"

namespace ge {
namespace {

graphStatus load(Graph& graph, const void* data, std::size_t size) {
    if (data == nullptr) return npu::ge::failed("loading a graph: the bytes are null");
    const auto* begin = static_cast<const std::byte*>(data);
    try {
        auto content = std::make_shared<GraphContent>();
        content->model = npu::graph::read_model({begin, size});
        content->bytes.assign(begin, begin + size);
        content->name = graph.impl_ && !graph.impl_->name.empty() ? graph.impl_->name : content->model.name;
        graph.impl_ = std::move(content);
        return kSuccess;
    } catch (const std::exception& error) {
        return npu::ge::failed(std::string("loading a graph: ") + error.what());
    }
}

}  // namespace

Graph::Graph(const char* name) : impl_(std::make_shared<GraphContent>()) { impl_->name = name ? name : ""; }
Graph::Graph(const Graph& other) = default;
Graph& Graph::operator=(const Graph& other) = default;
Graph::~Graph() = default;
graphStatus Graph::LoadFromSerializedModelArray(const void* data, std::size_t size) {
    return load(*this, data, size);
}
graphStatus Graph::LoadFromMem(const uint8_t* data, std::size_t size) { return load(*this, data, size); }
graphStatus Graph::LoadFromFile(const char* path) {
    std::ifstream file(path ? path : "", std::ios::binary);
    if (!file)
        return npu::ge::failed(std::string("loading a graph: cannot read ") + (path ? path : "(null)"));
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    return load(*this, bytes.data(), bytes.size());
}
graphStatus Graph::SaveToFile(const char* path) const {
    if (!impl_ || path == nullptr) return npu::ge::failed("saving a graph: it is empty, or the path is null");
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(impl_->bytes.data()),
               static_cast<std::streamsize>(impl_->bytes.size()));
    return file.flush() ? kSuccess : npu::ge::failed(std::string("saving a graph: cannot write ") + path);
}
graphStatus Graph::CopyFrom(const Graph& other) {
    if (!other.impl_) return npu::ge::failed("copying a graph: it is empty");
    const std::string name = impl_ ? impl_->name : "";
    impl_ = std::make_shared<GraphContent>(*other.impl_);
    if (!name.empty()) impl_->name = name;
    return kSuccess;
}
graphStatus Graph::GetName(AscendString& name) const {
    name = AscendString(impl_ ? impl_->name.c_str() : "");
    return kSuccess;
}
bool Graph::IsValid() const { return impl_ && !impl_->model.graphs.empty(); }
std::vector<GNode> Graph::GetDirectNode() const {
    std::vector<GNode> nodes;
    if (!IsValid()) return nodes;
    for (const auto& node : impl_->model.graphs.front().nodes)
        nodes.push_back({std::make_shared<GNode::Content>(GNode::Content{node.name, node.type})});
    return nodes;
}
std::vector<GNode> Graph::GetAllNodes() const {
    std::vector<GNode> nodes;
    if (!IsValid()) return nodes;
    for (const auto& graph : impl_->model.graphs)
        for (const auto& node : graph.nodes)
            nodes.push_back({std::make_shared<GNode::Content>(GNode::Content{node.name, node.type})});
    return nodes;
}

graphStatus GNode::GetType(AscendString& type) const {
    type = AscendString(impl_ ? impl_->type.c_str() : "");
    return impl_ ? kSuccess : kFailed;
}
graphStatus GNode::GetName(AscendString& name) const {
    name = AscendString(impl_ ? impl_->name.c_str() : "");
    return impl_ ? kSuccess : kFailed;
}

/// Succeeds where the operator has an input of that name: clients ask so whether this CANN knows it.
graphStatus Operator::UpdateInputDesc(const char* name, const TensorDesc&) {
    const auto* op = type_ ? npu::graph::find_operator(*type_) : nullptr;
    if (op == nullptr || name == nullptr)
        return npu::ge::failed("UpdateInputDesc: no such operator, or the name is null");
    for (const auto& input : op->inputs)
        if (input.name == name) return kSuccess;
    return npu::ge::failed("operator " + op->name + " has no input " + name);
}

/// By attribute name, GE's name of its type: "VT_INT", "VT_LIST_FLOAT".
graphStatus Operator::GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString>& attributes) const {
    static const std::map<std::string, const char*, std::less<>> types{{"Int", "VT_INT"},
                                                                       {"Float", "VT_FLOAT"},
                                                                       {"Bool", "VT_BOOL"},
                                                                       {"String", "VT_STRING"},
                                                                       {"Type", "VT_DATA_TYPE"},
                                                                       {"Tensor", "VT_TENSOR"},
                                                                       {"ListInt", "VT_LIST_INT"},
                                                                       {"ListFloat", "VT_LIST_FLOAT"},
                                                                       {"ListBool", "VT_LIST_BOOL"},
                                                                       {"ListString", "VT_LIST_STRING"},
                                                                       {"ListType", "VT_LIST_DATA_TYPE"},
                                                                       {"ListListInt", "VT_LIST_LIST_INT"}};
    const auto* op = type_ ? npu::graph::find_operator(*type_) : nullptr;
    if (op == nullptr)
        return npu::ge::failed("GetAllIrAttrNamesAndTypes: there is no operator " +
                               (type_ ? *type_ : "(none)"));
    for (const auto& attribute : op->attributes) {
        const auto found = types.find(attribute.type);
        attributes[AscendString(attribute.name.c_str())] =
            AscendString(found == types.end() ? attribute.type.c_str() : found->second);
    }
    return kSuccess;
}

Operator OperatorFactory::CreateOperator(const char*, const char* type) {
    Operator made;
    made.type_ = std::make_shared<std::string>(type ? type : "");
    return made;
}
bool OperatorFactory::IsExistOp(const char* type) {
    return type != nullptr && npu::graph::find_operator(type) != nullptr;
}

const char* GetFormatName(Format format) {
    switch (format) {
        case FORMAT_NCHW:
            return "NCHW";
        case FORMAT_NHWC:
            return "NHWC";
        case FORMAT_ND:
            return "ND";
        default:
            return "RESERVED";
    }
}

}  // namespace ge
