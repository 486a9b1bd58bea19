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
};

inline constexpr const char* kStrings = "strings are not supported";
inline constexpr const char* kRandom =
    "the expected numbers are another generator's: ONNX leaves the generator open";
inline constexpr const char* kTruncated =
    "the expected bf16 numbers are cut off, where ONNX says that a cast rounds to nearest";

inline constexpr Exception kExceptions[] = {
    {"test_strnorm*", Treatment::Skip, kStrings},
    {"test_cast*STRING*", Treatment::Skip, kStrings},
    {"test_cast*_FLOAT_to_BFLOAT16*", Treatment::Skip, kTruncated},
    {"test_castlike_BFLOAT16_to_FLOAT*", Treatment::Skip,
     "the model declares f32[3, 4] for 'like', the data has f32[1]"},
    {"test_adam_multiple", Treatment::Skip,
     "the expected numbers follow from an epsilon of 0.01, which the node does not carry"},
    {"test_bernoulli*", Treatment::Shapes, kRandom},
    {"test_training_dropout", Treatment::Shapes, kRandom},
    {"test_training_dropout_default", Treatment::Shapes, kRandom},
    {"test_training_dropout_mask", Treatment::Shapes, kRandom},
    {"test_training_dropout_default_mask", Treatment::Shapes, kRandom},
};

/// Null for a test that is run and compared in full.
const Exception* exception_for(const std::string& test);

} // namespace lathe::conformance
