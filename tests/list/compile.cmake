# Lowering, the runtime's base and the pipeline.
lathe_tests(lower_tests core view graph ast lower TESTS unit/lower_test unit/formula_test unit/memory_plan_test)
lathe_tests(compile_tests TESTS
  unit/alias_test unit/compile_test unit/kernel_order_test unit/realise_test unit/seed_test unit/block_formats_test unit/bounded_test
  golden/emit_test)
lathe_tests(run_tests TESTS
  unit/runtime_test unit/state_test unit/donated_test unit/object_cache_test unit/program_file_test property/threads_test property/in_place_test)
lathe_tests(tune_tests TESTS unit/quick_search_test unit/measure_test unit/tune_test unit/explain_test unit/trace_test)
lathe_test(property/compile_cost_test)
add_test(NAME property/compile_cost_long COMMAND property_compile_cost_test)
set_tests_properties(property/compile_cost_long PROPERTIES LABELS slow TIMEOUT 14400
  ENVIRONMENT "LATHE_GRAPHS=2000;LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/compile_cost_long")
lathe_tests(program_tests TESTS
  conformance/export_test conformance/empty_tensors_test conformance/long_rows_test conformance/scan_test conformance/while_loop_test
  conformance/long_chains_test)

# All 2^32 floats take an hour.
lathe_test(conformance/functions_test)
lathe_tests(number_tests TESTS
  conformance/casts_test conformance/narrow_casts_test conformance/remainder_test conformance/pow_test conformance/extremes_test
  conformance/derivatives_test conformance/sums_test unit/narrow_tensor_test)
add_test(NAME conformance/functions_of_all_floats COMMAND conformance_functions_test)
set_tests_properties(conformance/functions_of_all_floats PROPERTIES LABELS slow TIMEOUT 14400
  ENVIRONMENT "LATHE_FUNCTION_STEP=1;LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/functions_of_all_floats")
lathe_test(property/gradient_devices_test)
foreach(device c opencl)
  add_test(NAME property/gradient_on_${device} COMMAND property_gradient_devices_test)
  set_tests_properties(property/gradient_on_${device} PROPERTIES LABELS slow
    ENVIRONMENT "LATHE_TEST_DEVICE=${device};LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/gradient_on_${device}")
endforeach()
# The pages of `lathe view`, in a browser. Needs Debian's chromium, or another that LATHE_CHROMIUM names.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(LATHE_BENCH AND LATHE_HAS_ONNX AND Python3_FOUND)
  add_test(NAME conformance/viewer COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/viewer/run $<TARGET_FILE:lathe-program> $<TARGET_FILE:lathe-bench>)
  set_tests_properties(conformance/viewer PROPERTIES SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endif()
