# The fuzzer of the ONNX importer: preset `fuzz`, which needs clang.
if(TARGET lathe-onnx AND LATHE_SANITIZE MATCHES "fuzzer")
  add_executable(onnx_load fuzz/onnx_load.cpp)
  target_compile_options(onnx_load PRIVATE -Wall -Wextra $<$<BOOL:${LATHE_WERROR}>:-Werror>)
  target_link_libraries(onnx_load PRIVATE lathe-onnx)
  target_link_options(onnx_load PRIVATE -fsanitize=fuzzer)
endif()
