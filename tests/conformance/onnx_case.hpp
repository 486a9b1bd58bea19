// One test of ONNX's suite: a folder with a model and data sets of inputs and expected outputs.
//
// Inputs go by position to the model's inputs without initialiser. Dtypes and shapes have to be exact,
// integers too; floats within 1e-7 + 1e-3 |expected|, NaN equal to NaN: the rules of ONNX's own runner. bf16
// is stored as u16 in the suite's data, and is taken by its bits where the model declares bf16.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <utility>

namespace lathe::conformance {

using OpName = std::pair<std::string, std::string>; ///< domain ("" is ONNX's own) and name

/// The ops that occur in a test's model, its bodies and functions; none if the model can't be read.
std::set<OpName> ops_of(const std::filesystem::path& test);

/// Folders of programs that one run saves and another, in a process of its own, loads; "" for none. A test's
/// program is saved twice, before it runs and after: with no way through it taken yet, and with those of its
/// data.
struct SavedPrograms {
  std::filesystem::path save, load;
};

/// Why the test fails on a device; "" if it passes. `shapes_only`: of the outputs, dtypes and shapes are
/// compared.
std::string run_test(const std::filesystem::path& test, const std::string& device, bool shapes_only,
                     const SavedPrograms& saved = {});

} // namespace lathe::conformance
