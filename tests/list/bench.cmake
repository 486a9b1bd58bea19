# Tests of the house as a whole: its floors, its pages, its package, and what it promises of whole programs.
lathe_test(unit/floors_test core)
lathe_test(unit/search_sources_test core)
lathe_test(golden/ops_page_test core)
foreach(target unit_floors_test unit_search_sources_test golden_ops_page_test)
  target_compile_definitions(${target} PRIVATE LATHE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endforeach()
target_compile_definitions(unit_search_sources_test PRIVATE
  LATHE_SEARCH_SOURCES="${CMAKE_BINARY_DIR}/generated/search_sources.txt")

if(LATHE_HAS_LLVM)
  set(default_device cpu)
else()
  set(default_device c)
endif()
if(NOT LATHE_SANITIZE)
  add_test(NAME install/find_package COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/install/install_test.sh ${CMAKE_BINARY_DIR} ${default_device})
endif()

lathe_test(unit/seed_test)
lathe_test(unit/block_formats_test)
lathe_test(golden/emit_test)
