# Tests of the house as a whole: the floors, and (further down) what stands on the public API only.
lathe_test(unit/floors_test core)
if(TARGET unit_floors_test)
  target_compile_definitions(unit_floors_test PRIVATE LATHE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endif()
