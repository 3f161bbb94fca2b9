// CANN's C++ classes of the graph engine as far as clients use them, in our own words. Layouts and names:
// native/cann/facts (ge_abi, ge_symbols). Every class is a shared pointer wide and its content is ours alone,
// except gert::Tensor, which clients fill in place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/model.h"

#pragma GCC visibility push(default)
namespace ge {

using Status = uint32_t;
using graphStatus = uint32_t;
inline constexpr Status kSuccess = 0;
inline constexpr Status kFailed = 1343225857;  ///< GE's parameter error; callers only compare with 0

enum DataType : int { DT_FLOAT = 0, DT_UNDEFINED = 28 };
enum Format : int { FORMAT_NCHW = 0, FORMAT_NHWC = 1, FORMAT_ND = 2 };
enum Placement : int { kPlacementHost = 0, kPlacementDevice = 1 };

class AscendString {
  public:
    AscendString() = default;
    AscendString(const char* text);
    AscendString(const char* text, std::size_t length);
    const char* GetString() const;
    std::size_t GetLength() const;
    bool operator<(const AscendString& other) const;
    bool operator==(const AscendString& other) const;
    bool operator!=(const AscendString& other) const;

  private:
    std::shared_ptr<std::string> name_;
};
using Options = std::map<AscendString, AscendString>;

class Shape {
  public:
    Shape() = default;
    explicit Shape(const std::vector<int64_t>& dims);
    std::vector<int64_t> GetDims() const;

  private:
    std::shared_ptr<std::vector<int64_t>> impl_;
};

struct DescContent {
    std::vector<int64_t> dims, origin_dims;
    Format format = FORMAT_ND, origin_format = FORMAT_ND;
    DataType type = DT_FLOAT;
    Placement placement = kPlacementHost;
};

class TensorDesc {
  public:
    TensorDesc();
    void SetDataType(DataType type);
    DataType GetDataType() const;
    void SetFormat(Format format);
    Format GetFormat() const;
    void SetOriginFormat(Format format);
    void SetOriginShape(const Shape& shape);
    void SetPlacement(Placement placement);
    Placement GetPlacement() const;
    Shape GetShape() const;
    std::shared_ptr<DescContent> impl;
};

using Deleter = std::function<void(uint8_t*)>;
struct TensorContent;

class Tensor {
  public:
    Tensor();
    graphStatus SetDataType(const DataType& type);
    DataType GetDataType() const;
    graphStatus SetFormat(const Format& format);
    Format GetFormat() const;
    graphStatus SetPlacement(const Placement& placement);
    Placement GetPlacement() const;
    graphStatus SetShapeDimNum(std::size_t count);
    std::size_t GetShapeDimNum() const;
    graphStatus SetShapeDim(std::size_t index, int64_t size);
    int64_t GetShapeDim(std::size_t index) const;
    graphStatus SetOriginShapeDimNum(std::size_t count);
    std::size_t GetOriginShapeDimNum() const;
    graphStatus SetOriginShapeDim(std::size_t index, int64_t size);
    graphStatus SetTensorDesc(const TensorDesc& desc);
    TensorDesc GetTensorDesc() const;
    graphStatus SetData(uint8_t* data, std::size_t size, const Deleter& deleter);
    graphStatus ResetData(uint8_t* data, std::size_t size, const Deleter& deleter);
    std::unique_ptr<uint8_t[], Deleter> ResetData();
    const uint8_t* GetData() const;
    uint8_t* GetData();
    std::size_t GetSize() const;

  private:
    std::shared_ptr<TensorContent> impl;
};

class GNode {
  public:
    graphStatus GetType(AscendString& type) const;
    graphStatus GetName(AscendString& name) const;
    struct Content {
        std::string name, type;
    };
    std::shared_ptr<const Content> impl_;
};

/// A serialised model, read once.
struct GraphContent {
    std::string name;
    std::vector<std::byte> bytes;
    npu::graph::Model model;
};

class Graph {
  public:
    explicit Graph(const char* name);
    Graph(const Graph& other);
    Graph& operator=(const Graph& other);
    ~Graph();
    graphStatus LoadFromSerializedModelArray(const void* data, std::size_t size);
    graphStatus LoadFromMem(const uint8_t* data, std::size_t size);
    graphStatus LoadFromFile(const char* path);
    graphStatus SaveToFile(const char* path) const;
    graphStatus CopyFrom(const Graph& other);
    graphStatus GetName(AscendString& name) const;
    bool IsValid() const;
    std::vector<GNode> GetAllNodes() const;
    std::vector<GNode> GetDirectNode() const;
    std::shared_ptr<GraphContent> impl_;  ///< null where the client's inline constructor made it
};

class Operator {
  public:
    virtual ~Operator() = default;
    graphStatus UpdateInputDesc(const char* name, const TensorDesc& desc);
    graphStatus GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString>& attributes) const;
    std::shared_ptr<std::string> type_;
};

class OperatorFactory {
  public:
    static Operator CreateOperator(const char* name, const char* type);
    static bool IsExistOp(const char* type);
};

const char* GetFormatName(Format format);

// The user's allocator: objects and vtables are the client's.
class Allocator;
class MemBlock {
  public:
    virtual ~MemBlock() = 0;
    Allocator* allocator;  ///< a reference in GE: the same word
    void* addr;
    std::size_t count, size;
};
class Allocator {
  public:
    virtual ~Allocator() = 0;
    virtual MemBlock* Malloc(std::size_t size) = 0;
    virtual void Free(MemBlock* block) = 0;
    virtual MemBlock* MallocAdvise(std::size_t size, void* address) = 0;
};

struct SummaryContent;
class CompiledGraphSummary {
  public:
    bool IsStatic() const;
    Status GetOutputShapes(std::vector<Shape>& shapes) const;
    Status GetOutputDtypes(std::vector<DataType>& types) const;
    Status GetConstMemorySize(std::size_t& size) const;
    Status GetFeatureMemorySize(std::size_t& size) const;
    Status GetFixedFeatureMemorySize(std::size_t& size) const;
    Status GetRefreshableFeatureMemorySize(std::size_t& size) const;
    Status GetFeatureMemoryBaseRefreshable(bool& refreshable) const;
    Status GetStreamNum(std::size_t& count) const;
    Status GetEventNum(std::size_t& count) const;
    Status GetIOIndexesWithSameAddr(std::vector<std::pair<uint32_t, uint32_t>>& indexes) const;
    std::shared_ptr<const SummaryContent> data_;
};
using SummaryPtr = std::shared_ptr<CompiledGraphSummary>;

struct ModelBufferData {
    std::shared_ptr<uint8_t> data = nullptr;
    uint64_t length;
};

static_assert(sizeof(AscendString) == 16 && sizeof(Shape) == 16 && sizeof(TensorDesc) == 16 &&
              sizeof(Tensor) == 16);
static_assert(sizeof(Graph) == 16 && sizeof(CompiledGraphSummary) == 16 && sizeof(Operator) == 24 &&
              sizeof(ModelBufferData) == 24);
static_assert(sizeof(Allocator) == 8 && sizeof(MemBlock) == 40);

}  // namespace ge

namespace gert {

struct Shape {
    std::size_t dim_num;
    int64_t dims[25];
    uint8_t reserved[40];
};
struct StorageShape {
    Shape origin, storage;
    uint8_t reserved[40];
};
struct StorageFormat {
    int32_t origin, storage;
    uint8_t expand_dims_type[48], reserved[40];
};
/// What owns a tensor's memory: op 0 asks for the address, op 1 gives up a reference, op 2 takes one.
using AddressManager = uint32_t (*)(void* address, int operation, void** out);
enum TensorPlacement : int32_t {
    kOnDeviceHbm = 0,
    kOnHost = 1,
    kFollowing = 2,
    kOnDeviceP2p = 3,
    kTensorPlacementEnd = 4
};
struct TensorData {
    void* address;
    AddressManager manager;
    std::size_t size;
    TensorPlacement placement;
    uint32_t reserved_0;
    uint8_t reserved_1[40];
};
struct Tensor {
    StorageShape shape;
    StorageFormat format;
    uint8_t version, reserved[3];
    int32_t data_type;
    TensorData data;
    uint8_t reserved_field[40];
};
static_assert(sizeof(Shape) == 248 && sizeof(StorageShape) == 536 && sizeof(StorageFormat) == 96);
static_assert(sizeof(TensorData) == 72 && sizeof(Tensor) == 752 && offsetof(Tensor, data) == 640 &&
              offsetof(Tensor, data_type) == 636);

}  // namespace gert
#pragma GCC visibility pop
