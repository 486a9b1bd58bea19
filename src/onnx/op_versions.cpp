// The versions of ONNX's ops up to kNewestOpset, each with its largest number of inputs. What a version
// changed beyond the dtypes that it takes is either an input or an attribute (an importer that does not read
// the attribute refuses it) or a rule, for which the importers ask Call::opset(). Rules that changed after
// opset 12:
//   13  Softmax, LogSoftmax, Hardmax: one axis, not all from it on.
//       Squeeze, Unsqueeze, Split, ReduceSum: axes and split are inputs.
//   14  BatchNormalization: training_mode, running statistics.
//   16  RoiAlign: half a pixel.
//   18  Pad: axes. Split: num_outputs, the last part may be smaller. Resize: antialias, axes, policies.
//       Reduce*: axes are an input; without axes and with noop_with_empty_axes elements are squared and so
//       on, not summed. OptionalHasElement takes tensors.
//   19  Pad: wrap. AveragePool: dilations. Resize: half_pixel_symmetric.
//   20  DFT: the axis is an input, -2 by default. GridSample: linear and cubic are the names, any rank.
//       ReduceMax, ReduceMin: of bools.
//   21  GroupNormalization: scale and bias are of channels.
//       QuantizeLinear, DequantizeLinear: blocks, output_dtype.
//   22  MaxPool, AveragePool: what opsets before left open: a window that would begin in the padding behind
//       is none.
//   23  QuantizeLinear: the scale's dtype, or precision, says in which floats a quotient is taken.
//   24  Cast: to f8e8m0. Attention: a mask may be shorter than the keys.
//   25  Attention: windows.
//   27  Range: of halves, computed in f32.
//   28  Mod, BitShift: what zeros, infinities and too large shifts give. SpaceToDepth: mode.
// The rules of Attention are those that ONNX corrected after opset 24: a cap comes before the mask, a query
// that sees no key gets zeros, and causal queries of a padded cache are the last of what is there.
#include "onnx/op_versions.hpp"

#include <algorithm>

namespace lathe::onnx {
namespace {

struct Row {
  std::string_view op;
  OpVersion versions[12]; // those that are used, then opsets 0
};

constexpr Row kRows[] = {
    {"Abs", {{1, 1}, {6, 1}, {13, 1}}},
    {"Acos", {{7, 1}, {22, 1}}},
    {"Acosh", {{9, 1}, {22, 1}}},
    {"Add", {{1, 2}, {6, 2}, {7, 2}, {13, 2}, {14, 2}}},
    {"Affine", {{1, 1}}}, // withdrawn
    {"AffineGrid", {{20, 2}}},
    {"And", {{1, 2}, {7, 2}}},
    {"ArgMax", {{1, 1}, {11, 1}, {12, 1}, {13, 1}}},
    {"ArgMin", {{1, 1}, {11, 1}, {12, 1}, {13, 1}}},
    {"Asin", {{7, 1}, {22, 1}}},
    {"Asinh", {{9, 1}, {22, 1}}},
    {"Atan", {{7, 1}, {22, 1}}},
    {"Atanh", {{9, 1}, {22, 1}}},
    {"Attention", {{23, 6}, {24, 7}, {25, 7}}},
    {"AveragePool", {{1, 1}, {7, 1}, {10, 1}, {11, 1}, {19, 1}, {22, 1}}},
    {"BatchNormalization", {{1, 5}, {6, 5}, {7, 5}, {9, 5}, {14, 5}, {15, 5}}},
    {"Bernoulli", {{15, 1}, {22, 1}}},
    {"BitCast", {{26, 1}}},
    {"BitShift", {{11, 2}, {28, 2}}},
    {"BitwiseAnd", {{18, 2}}},
    {"BitwiseNot", {{18, 1}}},
    {"BitwiseOr", {{18, 2}}},
    {"BitwiseXor", {{18, 2}}},
    {"BlackmanWindow", {{17, 1}}},
    {"Cast", {{1, 1}, {6, 1}, {9, 1}, {13, 1}, {19, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}, {28, 1}}},
    {"CastLike", {{15, 2}, {19, 2}, {21, 2}, {23, 2}, {24, 2}, {25, 2}}},
    {"Ceil", {{1, 1}, {6, 1}, {13, 1}}},
    {"Celu", {{12, 1}, {28, 1}}},
    {"CenterCropPad", {{18, 2}}},
    {"Clip", {{1, 1}, {6, 1}, {11, 3}, {12, 3}, {13, 3}}},
    {"Col2Im", {{18, 3}}},
    {"Compress", {{9, 2}, {11, 2}, {28, 2}}},
    {"Concat", {{1, kMany}, {4, kMany}, {11, kMany}, {13, kMany}}},
    {"ConcatFromSequence", {{11, 1}}},
    {"Constant", {{1, 0}, {9, 0}, {11, 0}, {12, 0}, {13, 0}, {19, 0}, {21, 0}, {23, 0}, {24, 0}, {25, 0}}},
    {"ConstantOfShape", {{9, 1}, {20, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}}},
    {"Conv", {{1, 3}, {11, 3}, {22, 3}}},
    {"ConvInteger", {{10, 4}}},
    {"ConvTranspose", {{1, 3}, {11, 3}, {22, 3}}},
    {"Cos", {{7, 1}, {22, 1}}},
    {"Cosh", {{9, 1}, {22, 1}}},
    {"Crop", {{1, 1}}}, // withdrawn
    {"CumProd", {{26, 2}}},
    {"CumSum", {{11, 2}, {14, 2}}},
    {"DFT", {{17, 2}, {20, 3}}},
    {"DeformConv", {{19, 5}, {22, 5}}},
    {"DepthToSpace", {{1, 1}, {11, 1}, {13, 1}, {28, 1}}},
    {"DequantizeLinear", {{10, 3}, {13, 3}, {19, 3}, {21, 3}, {23, 3}, {24, 3}, {25, 3}, {28, 3}}},
    {"Det", {{11, 1}, {22, 1}}},
    {"Div", {{1, 2}, {6, 2}, {7, 2}, {13, 2}, {14, 2}}},
    {"Dropout", {{1, 1}, {6, 1}, {7, 1}, {10, 1}, {12, 3}, {13, 3}, {22, 3}}},
    {"DynamicQuantizeLinear", {{11, 1}}},
    {"Einsum", {{12, kMany}, {28, kMany}}},
    {"Elu", {{1, 1}, {6, 1}, {22, 1}}},
    {"Equal", {{1, 2}, {7, 2}, {11, 2}, {13, 2}, {19, 2}}},
    {"Erf", {{9, 1}, {13, 1}}},
    {"Exp", {{1, 1}, {6, 1}, {13, 1}}},
    {"Expand", {{8, 2}, {13, 2}}},
    {"EyeLike", {{9, 1}, {22, 1}}},
    {"Flatten", {{1, 1}, {9, 1}, {11, 1}, {13, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}}},
    {"Floor", {{1, 1}, {6, 1}, {13, 1}}},
    {"GRU", {{1, 6}, {3, 6}, {7, 6}, {14, 6}, {22, 6}}},
    {"Gather", {{1, 2}, {11, 2}, {13, 2}}},
    {"GatherElements", {{11, 2}, {13, 2}}},
    {"GatherND", {{11, 2}, {12, 2}, {13, 2}}},
    {"Gelu", {{20, 1}}},
    {"Gemm", {{1, 3}, {6, 3}, {7, 3}, {9, 3}, {11, 3}, {13, 3}}},
    {"GlobalAveragePool", {{1, 1}, {22, 1}}},
    {"GlobalLpPool", {{1, 1}, {2, 1}, {22, 1}}},
    {"GlobalMaxPool", {{1, 1}, {22, 1}}},
    {"Greater", {{1, 2}, {7, 2}, {9, 2}, {13, 2}}},
    {"GreaterOrEqual", {{12, 2}, {16, 2}}},
    {"GridSample", {{16, 2}, {20, 2}, {22, 2}}},
    {"GroupNormalization", {{18, 3}, {21, 3}}},
    {"HammingWindow", {{17, 1}}},
    {"HannWindow", {{17, 1}}},
    {"HardSigmoid", {{1, 1}, {6, 1}, {22, 1}}},
    {"HardSwish", {{14, 1}, {22, 1}}},
    {"Hardmax", {{1, 1}, {11, 1}, {13, 1}}},
    {"Identity", {{1, 1}, {13, 1}, {14, 1}, {16, 1}, {19, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}}},
    {"If", {{1, 1}, {11, 1}, {13, 1}, {16, 1}, {19, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}}},
    {"ImageScaler", {{1, 1}}}, // withdrawn
    {"InstanceNormalization", {{1, 3}, {6, 3}, {22, 3}}},
    {"IsInf", {{10, 1}, {20, 1}}},
    {"IsNaN", {{9, 1}, {13, 1}, {20, 1}}},
    {"LRN", {{1, 1}, {13, 1}}},
    {"LSTM", {{1, 8}, {7, 8}, {14, 8}, {22, 8}}},
    {"LayerNormalization", {{17, 3}}},
    {"LeakyRelu", {{1, 1}, {6, 1}, {16, 1}}},
    {"Less", {{1, 2}, {7, 2}, {9, 2}, {13, 2}}},
    {"LessOrEqual", {{12, 2}, {16, 2}}},
    {"Log", {{1, 1}, {6, 1}, {13, 1}}},
    {"LogSoftmax", {{1, 1}, {11, 1}, {13, 1}}},
    {"Loop",
     {{1, kMany},
      {11, kMany},
      {13, kMany},
      {16, kMany},
      {19, kMany},
      {21, kMany},
      {23, kMany},
      {24, kMany},
      {25, kMany}}},
    {"LpNormalization", {{1, 1}, {22, 1}}},
    {"LpPool", {{1, 1}, {2, 1}, {11, 1}, {18, 1}, {22, 1}}},
    {"MatMul", {{1, 2}, {9, 2}, {13, 2}}},
    {"MatMulInteger", {{10, 4}}},
    {"Max", {{1, kMany}, {6, kMany}, {8, kMany}, {12, kMany}, {13, kMany}}},
    {"MaxPool", {{1, 1}, {8, 1}, {10, 1}, {11, 1}, {12, 1}, {22, 1}}},
    {"MaxRoiPool", {{1, 2}, {22, 2}}},
    {"MaxUnpool", {{9, 3}, {11, 3}, {22, 3}}},
    {"Mean", {{1, kMany}, {6, kMany}, {8, kMany}, {13, kMany}}},
    {"MeanVarianceNormalization", {{9, 1}, {13, 1}}},
    {"MelWeightMatrix", {{17, 5}}},
    {"Min", {{1, kMany}, {6, kMany}, {8, kMany}, {12, kMany}, {13, kMany}}},
    {"Mish", {{18, 1}, {22, 1}}},
    {"Mod", {{10, 2}, {13, 2}, {28, 2}}},
    {"Mul", {{1, 2}, {6, 2}, {7, 2}, {13, 2}, {14, 2}}},
    {"Multinomial", {{7, 1}, {22, 1}}},
    {"Neg", {{1, 1}, {6, 1}, {13, 1}}},
    {"NegativeLogLikelihoodLoss", {{12, 3}, {13, 3}, {22, 3}}},
    {"NonMaxSuppression", {{10, 5}, {11, 5}}},
    {"NonZero", {{9, 1}, {13, 1}}},
    {"Not", {{1, 1}}},
    {"OneHot", {{9, 3}, {11, 3}, {28, 3}}},
    {"Optional", {{15, 1}, {28, 1}}},
    {"OptionalGetElement", {{15, 1}, {18, 1}, {28, 1}}},
    {"OptionalHasElement", {{15, 1}, {18, 1}, {28, 1}}},
    {"Or", {{1, 2}, {7, 2}}},
    {"PRelu", {{1, 2}, {6, 2}, {7, 2}, {9, 2}, {16, 2}}},
    {"Pad", {{1, 1}, {2, 1}, {11, 3}, {13, 3}, {18, 4}, {19, 4}, {21, 4}, {23, 4}, {24, 4}, {25, 4}}},
    {"ParametricSoftplus", {{1, 1}}}, // withdrawn
    {"Pow", {{1, 2}, {7, 2}, {12, 2}, {13, 2}, {15, 2}}},
    {"QLinearConv", {{10, 9}}},
    {"QLinearMatMul", {{10, 8}, {21, 8}}},
    {"QuantizeLinear", {{10, 3}, {13, 3}, {19, 3}, {21, 3}, {23, 3}, {24, 3}, {25, 3}, {28, 3}}},
    {"RMSNormalization", {{23, 2}}},
    {"RNN", {{1, 6}, {7, 6}, {14, 6}, {22, 6}}},
    {"RandomNormal", {{1, 0}, {22, 0}}},
    {"RandomNormalLike", {{1, 1}, {22, 1}}},
    {"RandomUniform", {{1, 0}, {22, 0}}},
    {"RandomUniformLike", {{1, 1}, {22, 1}}},
    {"Range", {{11, 3}, {27, 3}}},
    {"Reciprocal", {{1, 1}, {6, 1}, {13, 1}}},
    {"ReduceL1", {{1, 1}, {11, 1}, {13, 1}, {18, 2}}},
    {"ReduceL2", {{1, 1}, {11, 1}, {13, 1}, {18, 2}}},
    {"ReduceLogSum", {{1, 1}, {11, 1}, {13, 1}, {18, 2}, {28, 2}}},
    {"ReduceLogSumExp", {{1, 1}, {11, 1}, {13, 1}, {18, 2}, {28, 2}}},
    {"ReduceMax", {{1, 1}, {11, 1}, {12, 1}, {13, 1}, {18, 2}, {20, 2}}},
    {"ReduceMean", {{1, 1}, {11, 1}, {13, 1}, {18, 2}}},
    {"ReduceMin", {{1, 1}, {11, 1}, {12, 1}, {13, 1}, {18, 2}, {20, 2}}},
    {"ReduceProd", {{1, 1}, {11, 1}, {13, 1}, {18, 2}}},
    {"ReduceSum", {{1, 1}, {11, 1}, {13, 2}}},
    {"ReduceSumSquare", {{1, 1}, {11, 1}, {13, 1}, {18, 2}}},
    {"RegexFullMatch", {{20, 1}}},
    {"Relu", {{1, 1}, {6, 1}, {13, 1}, {14, 1}}},
    {"Reshape", {{1, 1}, {5, 2}, {13, 2}, {14, 2}, {19, 2}, {21, 2}, {23, 2}, {24, 2}, {25, 2}}},
    {"Resize", {{10, 2}, {11, 4}, {13, 4}, {18, 4}, {19, 4}}},
    {"ReverseSequence", {{10, 2}, {28, 2}}},
    {"RoiAlign", {{10, 3}, {16, 3}, {22, 3}}},
    {"RotaryEmbedding", {{23, 4}}},
    {"Round", {{11, 1}, {22, 1}}},
    {"STFT", {{17, 4}}},
    {"Scale", {{1, 1}}}, // withdrawn
    {"ScaledTanh", {{1, 1}}}, // withdrawn
    {"Scan",
     {{8, kMany},
      {9, kMany},
      {11, kMany},
      {16, kMany},
      {19, kMany},
      {21, kMany},
      {23, kMany},
      {24, kMany},
      {25, kMany}}},
    {"Scatter", {{9, 3}, {11, 3}}},
    {"ScatterElements", {{11, 3}, {13, 3}, {16, 3}, {18, 3}}},
    {"ScatterND", {{11, 3}, {13, 3}, {16, 3}, {18, 3}}},
    {"Selu", {{1, 1}, {6, 1}, {22, 1}}},
    {"SequenceAt", {{11, 2}}},
    {"SequenceConstruct", {{11, kMany}}},
    {"SequenceEmpty", {{11, 0}}},
    {"SequenceErase", {{11, 2}}},
    {"SequenceInsert", {{11, 3}}},
    {"SequenceLength", {{11, 1}}},
    {"SequenceMap", {{17, kMany}}},
    {"Shape", {{1, 1}, {13, 1}, {15, 1}, {19, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}}},
    {"Shrink", {{9, 1}}},
    {"Sigmoid", {{1, 1}, {6, 1}, {13, 1}}},
    {"Sign", {{9, 1}, {13, 1}}},
    {"SimplifiedLayerNormalization", {{1, 2}}}, // ONNX Runtime's, which has it beside ONNX's own
    {"Sin", {{7, 1}, {22, 1}}},
    {"Sinh", {{9, 1}, {22, 1}}},
    {"Size", {{1, 1}, {13, 1}, {19, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}}},
    {"Slice", {{1, 1}, {10, 5}, {11, 5}, {13, 5}}},
    {"Softmax", {{1, 1}, {11, 1}, {13, 1}}},
    {"SoftmaxCrossEntropyLoss", {{12, 3}, {13, 3}}},
    {"Softplus", {{1, 1}, {22, 1}}},
    {"Softsign", {{1, 1}, {22, 1}}},
    {"SpaceToDepth", {{1, 1}, {13, 1}, {28, 1}}},
    {"Split", {{1, 2}, {2, 1}, {11, 1}, {13, 2}, {18, 2}}},
    {"SplitToSequence", {{11, 2}, {24, 2}}},
    {"Sqrt", {{1, 1}, {6, 1}, {13, 1}}},
    {"Squeeze", {{1, 1}, {11, 1}, {13, 2}, {21, 2}, {23, 2}, {24, 2}, {25, 2}}},
    {"StringConcat", {{20, 2}}},
    {"StringNormalizer", {{10, 1}}},
    {"StringSplit", {{20, 1}}},
    {"Sub", {{1, 2}, {6, 2}, {7, 2}, {13, 2}, {14, 2}}},
    {"Sum", {{1, kMany}, {6, kMany}, {8, kMany}, {13, kMany}}},
    {"Swish", {{24, 1}}},
    {"Tan", {{7, 1}, {22, 1}}},
    {"Tanh", {{1, 1}, {6, 1}, {13, 1}}},
    {"TensorScatter", {{24, 3}}},
    {"TfIdfVectorizer", {{9, 1}}},
    {"ThresholdedRelu", {{10, 1}, {22, 1}}},
    {"Tile", {{1, 3}, {6, 2}, {13, 2}}},
    {"TopK", {{1, 1}, {10, 2}, {11, 2}, {24, 2}}},
    {"Transpose", {{1, 1}, {13, 1}, {21, 1}, {23, 1}, {24, 1}, {25, 1}}},
    {"Trilu", {{14, 2}}},
    {"Unique", {{11, 1}, {28, 1}}},
    {"Unsqueeze", {{1, 1}, {11, 1}, {13, 2}, {21, 2}, {23, 2}, {24, 2}, {25, 2}}},
    {"Upsample", {{1, 1}, {7, 1}, {9, 2}, {10, 2}}},
    {"Where", {{9, 3}, {16, 3}}},
    {"Xor", {{1, 2}, {7, 2}}},
};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::op));
static_assert(std::ranges::all_of(kRows,
                                  [](const Row& row) { return std::end(row.versions)[-1].since == 0; }));

} // namespace

std::span<const OpVersion> versions_of(std::string_view op) {
  const Row* row = std::ranges::lower_bound(kRows, op, {}, &Row::op);
  if (row == std::end(kRows) || row->op != op) return {};
  return {row->versions, std::ranges::find(row->versions, 0, &OpVersion::since)};
}

const OpVersion* version_at(std::string_view op, int opset) {
  const std::span<const OpVersion> versions = versions_of(op);
  if (versions.empty()) return nullptr;
  const auto next = std::ranges::upper_bound(versions, opset, {}, &OpVersion::since);
  return next == versions.begin() ? &versions.front() : &*std::prev(next);
}

int newest_opset(std::string_view domain) {
  if (domain.empty()) return kNewestOpset;
  return domain == "ai.onnx.ml" ? 5 : 1;
}

} // namespace lathe::onnx
