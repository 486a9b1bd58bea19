# Hand-made ONNX models.
function(lathe_onnx_tests program)
  lathe_tests(${program} TESTS ${ARGN})
  target_include_directories(${program} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated ${Protobuf_INCLUDE_DIRS})
  target_link_libraries(${program} PRIVATE lathe-onnx protobuf::libprotobuf-lite)
endfunction()
if(TARGET lathe-onnx)
  lathe_onnx_tests(onnx_op_tests
    unit/onnx_ops_test unit/onnx_layout_test unit/onnx_arithmetic_test unit/onnx_pool_test unit/onnx_image_test unit/onnx_forms_test
    unit/onnx_attention_test)
  lathe_onnx_tests(onnx_opset_tests
    unit/onnx_test unit/onnx_rules_test unit/onnx_opsets_test unit/onnx_opset_numbers_test unit/onnx_loops_test unit/onnx_narrow_test
    unit/onnx_gradient_test error/onnx_files_test)
  lathe_onnx_tests(onnx_microsoft_tests
    unit/onnx_microsoft_test unit/onnx_integer_products_test unit/onnx_microsoft_layers_test unit/onnx_microsoft_attention_test
    unit/onnx_quantise_test conformance/onnx_quantise_test)
  lathe_onnx_tests(onnx_ml_tests
    unit/onnx_ml_trees_test unit/onnx_ml_test unit/onnx_ml_strings_test unit/onnx_strings_test)
  foreach(program onnx_op_tests onnx_opset_tests onnx_microsoft_tests onnx_ml_tests)
    target_sources(${program} PRIVATE support/on_interpreter.cpp)
  endforeach()
  lathe_onnx_tests(onnx_program_tests
    unit/onnx_empty_test unit/onnx_block_products_test unit/onnx_saved_test unit/onnx_versions_test unit/onnx_open_branches_test unit/onnx_growing_loops_test unit/onnx_open_sizes_test unit/onnx_quick_first_test
    error/lathe_program_test conformance/onnx_large_test)
  target_compile_definitions(onnx_program_tests PRIVATE LATHE_PROGRAM="$<TARGET_FILE:lathe-program>")
  add_dependencies(onnx_program_tests lathe-program)
  set_tests_properties(conformance/onnx_large_test PROPERTIES LABELS slow)
endif()
