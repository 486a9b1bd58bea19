# Hand-made ONNX models.
if(TARGET lathe-onnx)
  foreach(name unit/onnx_test unit/onnx_rules_test unit/onnx_ops_test unit/onnx_layout_test unit/onnx_arithmetic_test
               unit/onnx_opsets_test unit/onnx_opset_numbers_test unit/onnx_loops_test unit/onnx_narrow_test unit/onnx_pool_test unit/onnx_empty_test
               unit/onnx_attention_test unit/onnx_image_test unit/onnx_forms_test
               unit/onnx_microsoft_test unit/onnx_integer_products_test unit/onnx_block_products_test
               unit/onnx_microsoft_layers_test unit/onnx_microsoft_attention_test
               unit/onnx_ml_trees_test unit/onnx_ml_test unit/onnx_strings_test unit/onnx_ml_strings_test
               unit/onnx_saved_test unit/onnx_versions_test unit/onnx_quick_first_test error/lathe_program_test unit/onnx_gradient_test unit/onnx_quantise_test conformance/onnx_quantise_test error/onnx_files_test conformance/onnx_large_test)
    lathe_test(${name})
    string(REPLACE "/" "_" target ${name})
    target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated ${Protobuf_INCLUDE_DIRS})
    target_link_libraries(${target} PRIVATE lathe-onnx protobuf::libprotobuf-lite)
  endforeach()
  target_compile_definitions(error_lathe_program_test PRIVATE LATHE_PROGRAM="$<TARGET_FILE:lathe-program>")
  add_dependencies(error_lathe_program_test lathe-program)
  set_tests_properties(conformance/onnx_large_test PROPERTIES LABELS slow)
endif()
