# Lowering, the runtime's base and the pipeline.
lathe_test(unit/lower_test core view graph ast lower)
lathe_test(unit/memory_plan_test core view graph ast lower)
lathe_test(unit/runtime_test)
lathe_test(unit/alias_test)
lathe_test(unit/bounded_test)
lathe_test(unit/compile_test)
lathe_test(unit/kernel_order_test)
lathe_test(unit/object_cache_test)
lathe_test(unit/program_file_test)
lathe_test(unit/measure_test)
lathe_test(unit/tune_test)
lathe_test(property/threads_test)
lathe_test(conformance/export_test)

# All 2^32 floats take an hour.
lathe_test(conformance/functions_test)
lathe_test(conformance/casts_test)
lathe_test(conformance/remainder_test)
lathe_test(conformance/pow_test)
lathe_test(conformance/extremes_test)
add_test(NAME conformance/functions_of_all_floats COMMAND conformance_functions_test)
set_tests_properties(conformance/functions_of_all_floats PROPERTIES LABELS slow TIMEOUT 14400
  ENVIRONMENT "LATHE_FUNCTION_STEP=1;LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/functions_of_all_floats")
lathe_test(conformance/derivatives_test)
lathe_test(conformance/sums_test)
lathe_test(property/gradient_devices_test)
foreach(device c opencl)
  add_test(NAME property/gradient_on_${device} COMMAND property_gradient_devices_test)
  set_tests_properties(property/gradient_on_${device} PROPERTIES LABELS slow
    ENVIRONMENT "LATHE_TEST_DEVICE=${device};LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/gradient_on_${device}")
endforeach()
# OpenCL leaves sine and cosine of f64 to the driver: PoCL is off by up to 1.4 ulp.
set_tests_properties(conformance/extremes_test PROPERTIES
  ENVIRONMENT "LATHE_TEST_DEVICE=cpu;LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/extremes")
