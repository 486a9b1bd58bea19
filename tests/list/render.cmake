lathe_tests(render_tests core view ast render TESTS unit/helper_text_test golden/render_test)
lathe_tests(device_tests core view ast render runtime TESTS unit/render_c_test unit/c_device_test unit/opencl_device_test)

# Emitted CUDA C: what it computes, on this machine's threads and on its GPU, if there is one; and that NVRTC compiles it,
# where that can be had.
lathe_test(conformance/cuda_test)
target_compile_definitions(conformance_cuda_test PRIVATE LATHE_CXX="${CMAKE_CXX_COMPILER}")
target_link_libraries(conformance_cuda_test PRIVATE ${CMAKE_DL_LIBS})
find_program(LATHE_NVCC nvcc PATHS /usr/local/cuda/bin)
if(LATHE_NVCC AND EXISTS /dev/nvidia0)
  add_test(NAME conformance/cuda_on_gpu COMMAND conformance_cuda_test)
  set_tests_properties(conformance/cuda_on_gpu PROPERTIES ENVIRONMENT
                       "LATHE_NVCC=${LATHE_NVCC};LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/cuda_on_gpu")
endif()
if(LATHE_BENCH)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(Python3_FOUND)
    add_test(NAME conformance/cuda_nvrtc COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/conformance/cuda_nvrtc.py
                                                 $<TARGET_FILE:lathe-bench> ${CMAKE_BINARY_DIR}/nvrtc)
    set_tests_properties(conformance/cuda_nvrtc PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endif()
