// The families of ops, one file each.
#pragma once
#include "onnx/registry.hpp"

namespace lathe::onnx {

OpTable elementwise_ops();
OpTable activation_ops();
OpTable logical_ops();
OpTable cast_ops();
OpTable reduce_ops();
OpTable softmax_ops();
OpTable norm_ops();
OpTable linear_ops();
OpTable quantise_ops();
OpTable loss_ops();
OpTable optimiser_ops();
OpTable gradient_ops();
OpTable conv_ops();
OpTable pool_ops();
OpTable movement_ops();
OpTable layout_ops();
OpTable gather_ops();
OpTable select_ops();
OpTable detection_ops();
OpTable resize_ops();
OpTable sample_ops();
OpTable image_ops();
OpTable recurrent_ops();
OpTable signal_ops();
OpTable text_ops();
OpTable generate_ops();
OpTable sequence_ops();
OpTable control_flow_ops();
OpTable transformer_ops();
OpTable ml_tree_ops();
OpTable ml_linear_ops();
OpTable ml_svm_ops();
OpTable ml_feature_ops();
OpTable ml_label_ops();
OpTable ml_map_ops();
OpTable string_ops();

} // namespace lathe::onnx
