# The pages: every C++ and shell block runs and prints what the page says; the site has no warning and no dead
# link.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND AND TARGET lathe)
  set(blocks ${CMAKE_SOURCE_DIR}/tools/site/blocks.py)
  file(GLOB_RECURSE pages RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
  set(sources)
  set(running)
  foreach(page README.md HACKING.md ${pages})
    # A page that gets its first block is seen at once.
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                 ${CMAKE_SOURCE_DIR}/${page})
    file(STRINGS ${CMAKE_SOURCE_DIR}/${page} fences REGEX "^```(cpp|sh)( |$)")
    if(NOT fences)
      continue()
    endif()
    list(APPEND running ${page})
    string(MAKE_C_IDENTIFIER ${page} name)
    add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/docs_${name}.cpp
      COMMAND ${Python3_EXECUTABLE} ${blocks} cpp ${CMAKE_CURRENT_BINARY_DIR}/docs_${name}.cpp ${page}
      DEPENDS ${CMAKE_SOURCE_DIR}/${page} ${blocks} ${CMAKE_SOURCE_DIR}/tools/site/pages.py)
    list(APPEND sources ${CMAKE_CURRENT_BINARY_DIR}/docs_${name}.cpp)
  endforeach()

  add_executable(docs_blocks docs/main.cpp ${sources})
  lathe_fast_malloc(docs_blocks)
  target_include_directories(docs_blocks PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  # A page may show a value and leave it at that.
  target_compile_options(docs_blocks PRIVATE -Wall -Wextra -Wno-unused-variable -Wno-unused-but-set-variable
                                             $<$<BOOL:${LATHE_WERROR}>:-Werror> $<$<CONFIG:Release>:-O0>)
  target_link_libraries(docs_blocks PRIVATE lathe)
  add_dependencies(docs_blocks lathe-measure)
  if(LATHE_BENCH)
    add_dependencies(docs_blocks lathe-bench)
  endif()
  foreach(needed lathe-llvm lathe-program)
    if(TARGET ${needed})
      add_dependencies(docs_blocks ${needed})
    endif()
  endforeach()
  if(TARGET lathe-onnx)
    target_link_libraries(docs_blocks PRIVATE lathe-onnx)
    target_compile_definitions(docs_blocks PRIVATE LATHE_DOCS_ONNX=1)
  endif()

  foreach(page ${running})
    string(MAKE_C_IDENTIFIER ${page} name)
    add_test(NAME docs/blocks/${page}
             COMMAND ${Python3_EXECUTABLE} ${blocks} run ${page} $<TARGET_FILE:docs_blocks>
             ${CMAKE_BINARY_DIR}/test-cache/docs/${name} ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/bench)
    set_tests_properties(docs/blocks/${page} PROPERTIES SKIP_RETURN_CODE 77
      ENVIRONMENT "LATHE_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache/docs_cache_${name}")
  endforeach()

  # Links between pages, without MkDocs; the site itself, where an earlier `tools/docs` has fetched it.
  add_test(NAME docs/links
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/site/stage.py ${CMAKE_BINARY_DIR}/docs-staged)
  add_test(NAME docs/site COMMAND ${CMAKE_SOURCE_DIR}/tools/docs --no-fetch)
  set_tests_properties(docs/site PROPERTIES SKIP_RETURN_CODE 77)
endif()
