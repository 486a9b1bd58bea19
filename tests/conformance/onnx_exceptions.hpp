// The tests of ONNX's suite that are not run or not compared in full, each with its reason. There is no other
// exclusion.
#pragma once
#include <string>

namespace lathe::conformance {

enum class Treatment {
  Skip,   ///< not run
  Shapes, ///< run, but of the outputs only dtypes and shapes are compared
};

struct Exception {
  const char* pattern; ///< of the test's name; * stands for anything
  Treatment treatment;
  const char* reason;
  const char* set = ""; ///< the ONNX whose test it is; "" for every one's
};

inline constexpr const char* kRandom =
    "the expected numbers are another generator's: ONNX leaves the generator open";
inline constexpr const char* kTruncated =
    "the expected bf16 numbers are cut off, where ONNX says that a cast rounds to nearest";

inline constexpr const char* kCapBeforeMask =
    "the expected numbers are capped after the mask is added; ONNX has corrected the order since";

inline constexpr Exception kExceptions[] = {
    {"test_image_decoder*", Treatment::Skip, "images in files' formats are not decoded"},
    {"test_cast*_FLOAT_to_BFLOAT16*", Treatment::Skip, kTruncated, "1.12"},
    {"test_castlike_BFLOAT16_to_FLOAT*", Treatment::Skip,
     "the model declares f32[3, 4] for 'like', the data has f32[1]", "1.12"},
    {"test_attention_3d_with_past_and_present_qk_matmul_softcap", Treatment::Skip, kCapBeforeMask},
    {"test_attention_4d_with_qk_matmul_softcap", Treatment::Skip, kCapBeforeMask},
    {"test_qlinearmatmul_*_int8_float*", Treatment::Skip,
     "the expected integers wrap around where ONNX says that they saturate"},
    {"test_l2normalization_axis_0", Treatment::Skip,
     "a vector of zeros is expected to become NaN, not zeros"},
    {"test_dft_inverse*", Treatment::Skip,
     "among the expected numbers is the rounding error of a zero, above the tolerance", "1.19.1"},
    {"test_adam_multiple", Treatment::Skip,
     "the expected numbers follow from an epsilon of 0.01, which the node does not carry"},
    {"test_bernoulli*", Treatment::Shapes, kRandom},
    {"test_training_dropout", Treatment::Shapes, kRandom},
    {"test_training_dropout_default", Treatment::Shapes, kRandom},
    {"test_training_dropout_mask", Treatment::Shapes, kRandom},
    {"test_training_dropout_default_mask", Treatment::Shapes, kRandom},
};

/// Null for a test that is run and compared in full.
const Exception* exception_for(const std::string& set, const std::string& test);

} // namespace lathe::conformance
