lathe_tests(graph_tests core view graph TESTS
  unit/graph_test golden/graph_test rules/graph_rules_test rules/integer_product_test rules/block_product_test
  rules/byte_table_test error/tensor_errors_test)
lathe_test(unit/tensor_test core view graph)
lathe_test(unit/gradient_test core view graph)
lathe_tests(gradient_tests core view graph TESTS
  unit/unroll_test property/gradient_test property/gradient_view_test property/linear_gradient_test)
# Tests of values of tensors, by the tests' own evaluator.
add_library(test_values_by_evaluator OBJECT support/values_by_evaluator.cpp)
target_include_directories(test_values_by_evaluator PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(test_values_by_evaluator PRIVATE lathe_doctest)
lathe_tests(value_tests core view graph TESTS
  unit/arguments_test unit/functions_test unit/mapping_test property/random_test property/power_gradient_test)
# The composed functions, by theme.
lathe_tests(tensor_tests core view graph TESTS
  conformance/tensor_numbers_test conformance/tensor_reductions_test conformance/tensor_movement_test
  conformance/tensor_windows_test conformance/tensor_arrays_test conformance/tensor_patches_test conformance/tensor_scans_test
  conformance/tensor_statistics_test conformance/tensor_fourier_test conformance/tensor_mapping_test)
lathe_tests(tensor_matrix_tests core view graph TESTS conformance/tensor_linalg_test conformance/tensor_spectral_test)
foreach(program value_tests tensor_tests tensor_matrix_tests)
  target_link_libraries(${program} PRIVATE test_values_by_evaluator Eigen3::Eigen)
endforeach()
# The same cases through the compiler, on each device that is built.
if(TARGET lathe_compile)
  add_executable(conformance_tensor_devices_test $<TARGET_OBJECTS:tensor_tests> $<TARGET_OBJECTS:tensor_matrix_tests>
    support/values_by_device.cpp)
  target_include_directories(conformance_tensor_devices_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(conformance_tensor_devices_test PRIVATE -Wall -Wextra $<$<BOOL:${LATHE_WERROR}>:-Werror>)
  target_link_libraries(conformance_tensor_devices_test PRIVATE lathe_doctest lathe)
  lathe_fast_malloc(conformance_tensor_devices_test)
  set(devices interp c)
  if(LATHE_HAS_LLVM)
    list(APPEND devices cpu)
  endif()
  foreach(device ${devices})
    add_test(NAME conformance/tensor_on_${device} COMMAND conformance_tensor_devices_test)
    set_tests_properties(conformance/tensor_on_${device} PROPERTIES
      ENVIRONMENT "LATHE_TEST_DEVICE=${device};LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/tensor_on_${device}")
  endforeach()
  # Every run has the cases on `cpu`. Of these two devices it has random schedules, which property/walk_test compares.
  set_tests_properties(conformance/tensor_on_c conformance/tensor_on_interp PROPERTIES LABELS slow)
endif()
lathe_tests(access_tests TESTS
  unit/value_range_test unit/computed_table_test property/taken_neighbours_test property/long_reductions_test property/spaced_loads_test
  property/byte_look_ups_test property/gathered_rows_test property/scattered_rows_test)
