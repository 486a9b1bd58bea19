if(LATHE_HAS_LLVM)
  lathe_test(unit/llvm_test)
  lathe_test(unit/cpu_device_test)
endif()
