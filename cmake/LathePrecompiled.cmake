# Parsing the headers of the standard library and of fmt is a third of what a build does; so they are parsed once for each group
# of targets that are compiled with the same options. Sources include what they use all the same: the presets with sanitizers
# build without (CMAKE_DISABLE_PRECOMPILE_HEADERS).
set(LATHE_PRECOMPILED_HEADERS <algorithm> <array> <atomic> <cmath> <cstdint> <functional> <map> <memory> <mutex> <numeric> <optional>
                              <set> <span> <string> <string_view> <unordered_map> <unordered_set> <utility> <variant> <vector>
                              <fmt/format.h> <fmt/ranges.h>)

# lathe_precompile(<target> <group> [<more headers>]): the first target of a group makes its headers, the others take them.
function(lathe_precompile target group)
  get_property(owner GLOBAL PROPERTY LATHE_PRECOMPILED_BY_${group})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${LATHE_PRECOMPILED_HEADERS} ${ARGN})
    set_property(GLOBAL PROPERTY LATHE_PRECOMPILED_BY_${group} ${target})
  endif()
endfunction()

# GCC 12 guesses wrong about the flow of data in its own headers (PR105651, PR105593); of precompiled ones it says so.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()
