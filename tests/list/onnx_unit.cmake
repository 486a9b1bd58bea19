# Hand-made ONNX models.
if(TARGET lathe-onnx)
  foreach(name unit/onnx_test unit/onnx_rules_test unit/onnx_ops_test unit/onnx_layout_test unit/onnx_arithmetic_test
               unit/onnx_opsets_test unit/onnx_pool_test
               unit/onnx_saved_test unit/onnx_gradient_test error/onnx_files_test conformance/onnx_large_test)
    lathe_test(${name})
    string(REPLACE "/" "_" target ${name})
    target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated ${Protobuf_INCLUDE_DIRS})
    target_link_libraries(${target} PRIVATE lathe-onnx protobuf::libprotobuf-lite)
  endforeach()
  set_tests_properties(conformance/onnx_large_test PROPERTIES LABELS slow)
endif()
