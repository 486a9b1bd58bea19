// The ops of domain com.microsoft: ONNX Runtime's own, by families.
#pragma once
#include <vector>

#include "onnx/registry.hpp"

namespace lathe::onnx {

inline constexpr const char* kMicrosoft = "com.microsoft";

std::vector<OpTable> microsoft_ops();

OpTable microsoft_elementwise_quantised_ops();
OpTable microsoft_pooled_quantised_ops();
OpTable microsoft_quantised_product_ops();
OpTable microsoft_block_quantised_ops();
OpTable microsoft_fused_ops();
OpTable microsoft_norm_ops();
OpTable microsoft_attention_ops();
OpTable microsoft_grouped_attention_ops();
OpTable microsoft_array_ops();
OpTable microsoft_text_ops();
OpTable withdrawn_ops(); // of ONNX's domain

} // namespace lathe::onnx
