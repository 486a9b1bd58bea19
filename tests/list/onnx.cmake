# The ONNX importer, against the ONNX project's own tests where they are installed.
if(TARGET lathe-onnx)
  find_package(CLI11 REQUIRED)
  add_executable(onnx_suite conformance/onnx_suite.cpp conformance/onnx_case.cpp conformance/onnx_page.cpp)
  target_include_directories(onnx_suite PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(onnx_suite PRIVATE -Wall -Wextra $<$<BOOL:${LATHE_WERROR}>:-Werror>)
  target_link_libraries(onnx_suite PRIVATE lathe-onnx fmt::fmt CLI11::CLI11)
  add_dependencies(onnx_suite lathe-measure)
  if(TARGET lathe-llvm)
    add_dependencies(onnx_suite lathe-llvm)
  endif()
  # Newer tests than Debian has, where there is a network. Under a sanitizer they would take hours.
  set(newer --newer ${CMAKE_BINARY_DIR}/onnx-tests/1.19.1)
  if(LATHE_SANITIZE)
    set(newer)
  endif()
  add_test(NAME conformance/onnx_tests COMMAND ${CMAKE_SOURCE_DIR}/tools/onnx-tests ${CMAKE_BINARY_DIR}/onnx-tests)
  set_tests_properties(conformance/onnx_tests PROPERTIES SKIP_RETURN_CODE 77 FIXTURES_SETUP onnx_tests)
  # The suite skips itself, and says so, where its data or the device is not there.
  function(lathe_onnx_suite name)
    add_test(NAME conformance/${name} COMMAND onnx_suite ${ARGN})
    set_tests_properties(conformance/${name} PROPERTIES SKIP_RETURN_CODE 77 FIXTURES_REQUIRED onnx_tests
      ENVIRONMENT "LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/onnx_suite")
  endfunction()
  lathe_onnx_suite(onnx_suite --expect ${CMAKE_SOURCE_DIR}/docs/onnx.md)
  lathe_onnx_suite(onnx_suite_newer ${newer} --expect ${CMAKE_SOURCE_DIR}/docs/onnx.md)
  set_tests_properties(conformance/onnx_suite_newer PROPERTIES LABELS slow TIMEOUT 3600)
  lathe_onnx_suite(onnx_suite_c_sample ${newer} --device c --every 60)
  lathe_onnx_suite(onnx_suite_opencl_sample ${newer} --device opencl --every 100)
  lathe_onnx_suite(onnx_suite_interp_sample ${newer} --device interp --every 20)
  # The ops of other domains, against ONNX Runtime where Python has it.
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(Python3_FOUND)
    add_test(NAME conformance/onnx_runtime COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/conformance/onnx_runtime.py
                                                   $<TARGET_FILE:lathe-program>)
    set_tests_properties(conformance/onnx_runtime PROPERTIES SKIP_RETURN_CODE 77
      ENVIRONMENT "LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/onnx_runtime")
  endif()
  # Programs with control flow, sequences and shapes that values decide, run by another process than made them.
  set(saved ${CMAKE_BINARY_DIR}/test-cache/onnx_suite_saved)
  file(MAKE_DIRECTORY ${saved})
  set(deciding)
  foreach(op If Loop Scan SequenceInsert SequenceAt SplitToSequence OptionalGetElement NonZero Compress Reshape)
    list(APPEND deciding --with ${op})
  endforeach()
  lathe_onnx_suite(onnx_suite_save ${deciding} --save ${saved})
  lathe_onnx_suite(onnx_suite_load ${deciding} --load ${saved})
  set_tests_properties(conformance/onnx_suite_save PROPERTIES FIXTURES_SETUP onnx_suite_saved)
  set_tests_properties(conformance/onnx_suite_load PROPERTIES FIXTURES_REQUIRED "onnx_tests;onnx_suite_saved")
  foreach(device c opencl)
    lathe_onnx_suite(onnx_suite_${device} ${newer} --device ${device})
    set_tests_properties(conformance/onnx_suite_${device} PROPERTIES LABELS slow TIMEOUT 7200)
  endforeach()

  # Broken files. Memory is limited there, and a sanitizer needs more of it than there is.
  add_executable(onnx_mutation property/onnx_mutation.cpp)
  target_include_directories(onnx_mutation PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(onnx_mutation PRIVATE -Wall -Wextra $<$<BOOL:${LATHE_WERROR}>:-Werror>)
  target_link_libraries(onnx_mutation PRIVATE fmt::fmt CLI11::CLI11)
  add_dependencies(onnx_mutation lathe-program)
  if(NOT LATHE_SANITIZE)
    add_test(NAME property/onnx_mutation COMMAND onnx_mutation $<TARGET_FILE:lathe-program>)
    add_test(NAME property/onnx_mutation_10000 COMMAND onnx_mutation $<TARGET_FILE:lathe-program> --count 10000 --seed 2)
    set_tests_properties(property/onnx_mutation property/onnx_mutation_10000 PROPERTIES SKIP_RETURN_CODE 77)
    set_tests_properties(property/onnx_mutation_10000 PROPERTIES LABELS slow TIMEOUT 14400)
  endif()

  # Random models beside ONNX Runtime, where Python has it.
  if(TARGET lathe-program)
    add_test(NAME conformance/onnx_runtime_ml
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/conformance/onnx_runtime_ml.py $<TARGET_FILE:lathe-program>)
    set_tests_properties(conformance/onnx_runtime_ml PROPERTIES SKIP_RETURN_CODE 77
      ENVIRONMENT "LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/onnx_runtime_ml")
  endif()

  # Networks exported to C, where the environment has a folder of the ONNX project's light_*.onnx.
  if(TARGET lathe-program)
    set(check ${CMAKE_CURRENT_SOURCE_DIR}/conformance/export_network.py --lathe $<TARGET_FILE:lathe-program>)
    add_test(NAME conformance/export_alexnet COMMAND ${check} $LATHE_ONNX_LIGHT/light_bvlc_alexnet.onnx)
    add_test(NAME conformance/export_squeezenet_on_arm COMMAND ${check} $LATHE_ONNX_LIGHT/light_squeezenet.onnx
      --compiler "arm-linux-gnueabihf-gcc -O1 -std=c11" --runner "qemu-arm -L /usr/arm-linux-gnueabihf")
    set_tests_properties(conformance/export_alexnet conformance/export_squeezenet_on_arm PROPERTIES LABELS slow SKIP_RETURN_CODE 77
      ENVIRONMENT "LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/export_network")
  endif()
endif()
