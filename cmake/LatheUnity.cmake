# The sources of one folder are compiled some at a time, as one: what they all include is parsed, and what they all instantiate is
# made, once. So names in anonymous namespaces differ within a folder. docs/decisions/sources-compiled-together.md.
option(LATHE_UNITY "Compile the sources of a folder together" ON)
set(LATHE_UNITY_SIZE 8) # sources; an edit compiles its group anew

# lathe_unity(<target>): after the last source is added.
function(lathe_unity target)
  if(NOT LATHE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(REMOVE_ITEM sources ${LATHE_NEVER_DESTROYED})
  list(SORT sources)
  set(previous none)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    if(NOT folder STREQUAL previous)
      set(previous ${folder})
      set(index 0)
    endif()
    math(EXPR group "${index} / ${LATHE_UNITY_SIZE}")
    math(EXPR index "${index} + 1")
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "" name "${folder}_${group}")
    string(MAKE_C_IDENTIFIER "${name}" name)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name})
  endforeach()
  # GCC takes a source that another includes for a header, whose classes must not hold what is in an anonymous namespace.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
