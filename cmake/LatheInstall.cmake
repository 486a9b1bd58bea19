# Installs the library, its headers and the package files that make find_package(lathe) work.
include(CMakePackageConfigHelpers)

install(TARGETS lathe EXPORT lathe-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/lathe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
# The LLVM backend is loaded at run time from the folder of the library; it is no target for others to link.
if(TARGET lathe-llvm)
  set_target_properties(lathe-llvm PROPERTIES INSTALL_RPATH "$ORIGIN;${LLVM_LIBRARY_DIR}")
  install(TARGETS lathe-llvm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# So is the program that measures candidates started from there.
set_target_properties(lathe-measure PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS lathe-measure RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(TARGET lathe-onnx)
  set_target_properties(lathe-onnx PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS lathe-onnx EXPORT lathe-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lathe)
install(EXPORT lathe-targets NAMESPACE lathe:: DESTINATION ${package_dir})
configure_package_config_file(cmake/lathe-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/lathe-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/lathe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lathe-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/lathe-config-version.cmake
        DESTINATION ${package_dir})
