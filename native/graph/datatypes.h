// Every data type of the graph engine: one row a type (internal to this folder).
#pragma once

#include "graph/types.h"

namespace npu::graph {

struct DataTypeRow {
    int number;        ///< of ge::DataType
    int proto;         ///< of the protobuf's DataType
    std::size_t size;  ///< bytes of an element; 0: not a whole number, or not a plain one
    const char* ge;    ///< "BF16": the enumerator without DT_
    const char* name;  ///< "bfloat16"
};

std::span<const DataTypeRow> data_types();
const DataTypeRow* find_data_type(DataType type);  ///< or null

}  // namespace npu::graph
