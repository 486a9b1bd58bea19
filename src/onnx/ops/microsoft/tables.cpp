#include "onnx/ops/microsoft/tables.hpp"

namespace lathe::onnx {

std::vector<OpTable> microsoft_ops() {
  return {microsoft_elementwise_quantised_ops(),
          microsoft_pooled_quantised_ops(),
          microsoft_quantised_product_ops(),
          microsoft_block_quantised_ops(),
          microsoft_fused_ops(),
          microsoft_norm_ops(),
          microsoft_attention_ops(),
          microsoft_grouped_attention_ops(),
          microsoft_array_ops(),
          microsoft_text_ops(),
          withdrawn_ops()};
}

} // namespace lathe::onnx
