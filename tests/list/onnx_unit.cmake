# Hand-made ONNX models.
if(TARGET lathe-onnx)
  foreach(name onnx_test onnx_rules_test onnx_ops_test onnx_layout_test onnx_arithmetic_test onnx_gradient_test onnx_saved_test)
    lathe_test(unit/${name})
    target_include_directories(unit_${name} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated ${Protobuf_INCLUDE_DIRS})
    target_link_libraries(unit_${name} PRIVATE lathe-onnx protobuf::libprotobuf-lite)
  endforeach()
endif()
