// The part of the graph engine's C++ surface that we call, in our own words: building an OM from a serialised
// graph.
//
// Only names that are the same under both settings of _GLIBCXX_USE_CXX11_ABI (CANN is built with 0, we with
// 1): AscendString overloads, no std::string in any signature. tests/conformance/abi compiles this under both
// and compares the mangled names with facts/ge_build.json. Everything lives in libgraph_base (AscendString),
// libgraph (Graph), libge_compiler (aclgrph*).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace ge {

using graphStatus = uint32_t;

class AscendString {
  public:
    explicit AscendString(const char* text);
    const char* GetString() const;
    bool operator<(const AscendString& other) const;

  private:
    std::shared_ptr<void> name_;  // a string behind it, which only CANN looks at
};

class Graph {
  public:
    explicit Graph(const char* name);
    ~Graph();
    graphStatus LoadFromMem(const uint8_t* bytes, std::size_t size);

  private:
    std::shared_ptr<void> impl_;
};

struct ModelBufferData {
    std::shared_ptr<uint8_t> data;
    uint64_t length = 0;
};

using Options = std::map<AscendString, AscendString>;

graphStatus aclgrphBuildInitialize(Options& options);
void aclgrphBuildFinalize();
graphStatus aclgrphBuildModel(const Graph& graph, const Options& options, ModelBufferData& model);
graphStatus aclgrphGetIRVersion(int* major, int* minor, int* patch);
AscendString GEGetErrorMsgV3();

static_assert(sizeof(AscendString) == 16 && sizeof(Graph) == 16);
static_assert(sizeof(ModelBufferData) == 24 && offsetof(ModelBufferData, length) == 16);

}  // namespace ge
