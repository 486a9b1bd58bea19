# Tests of the house as a whole: its floors, its pages, its package, and what it promises of whole programs.
lathe_tests(house_tests core TESTS unit/floors_test unit/search_sources_test golden/ops_page_test)
target_compile_definitions(house_tests PRIVATE LATHE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
  LATHE_SEARCH_SOURCES="${CMAKE_BINARY_DIR}/generated/search_sources.txt")

if(LATHE_HAS_LLVM)
  set(default_device cpu)
else()
  set(default_device c)
endif()
if(NOT LATHE_SANITIZE)
  add_test(NAME install/find_package COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/install/install_test.sh ${CMAKE_BINARY_DIR} ${default_device})
endif()

