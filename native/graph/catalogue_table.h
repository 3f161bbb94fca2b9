// The generated table (generate.py), in the form that catalogue.cpp parses (internal to this folder).
#pragma once

#include <span>

namespace npu::graph {

std::span<const char* const> type_set_texts();
std::span<const char* const> operator_texts();  ///< sorted by operator

}  // namespace npu::graph
