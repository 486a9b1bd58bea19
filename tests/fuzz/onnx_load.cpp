// libFuzzer: any bytes are a model or a lathe::Error, and whatever loads can be looked at.
//
//   tests/fuzz/onnx_corpus.sh corpus && build/fuzz/tests/onnx_load corpus -max_len=8192
#include "lathe/onnx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const lathe::onnx::Model model = lathe::onnx::load(bytes, size);
    model.problems();
    listing(model.layers());
  } catch (const lathe::Error&) {
  }
  return 0;
}
